"""Find and load plugins by kind and name: files in the plural folders, and entry points of other packages.

A plugin of kind ``task`` is a module that has a callable ``task(**options)``; likewise ``engine``,
``policy`` and ``log``. Other packages add theirs with an entry point in the group ``keff.tasks`` (or
``keff.engines``, ...) whose object is that callable.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal

from keff.errors import PluginError

Kind = Literal["task", "engine", "policy", "log"]

PLURAL: dict[Kind, str] = {"task": "tasks", "engine": "engines", "policy": "policies", "log": "logs"}

EXTRA = {
    "xllamacpp": "llamacpp",
    "torch": "hf",
    "transformers": "hf",
    "gguf": "hf",
    "accelerate": "hf",
    "vllm": "vllm",
    "ray": "ray",
    "starlette": "serve",
    "uvicorn": "serve",
    "aiohttp": "serve",
    "matplotlib": "report",
    "altair": "report",
    "vl_convert": "report",
    "jinja2": "report",
    "math_verify": "math",
    "pyarrow": "parquet",
    "datasets": "data",
    "zstandard": "inspect",
}
"""Which extra of keff brings an importable package."""


def missing_extra(error: ImportError, wanted_by: str) -> PluginError:
    """Turn an ImportError into the one line that says what to install."""
    package = (error.name or "").split(".")[0]
    extra = EXTRA.get(package)
    if extra is None:
        return PluginError(f"{wanted_by} cannot be imported: {error}")
    return PluginError(f"{wanted_by} needs the package {package}: pip install 'keff[{extra}]'")


def _folder(kind: Kind) -> Path:
    return Path(__file__).parent / PLURAL[kind]


def _entry_points(kind: Kind) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"keff.{PLURAL[kind]}")}


def names(kind: Kind) -> dict[str, str]:
    """Return every plugin of a kind with its one-line summary, without importing any of them."""
    found: dict[str, str] = {}
    for file in sorted(_folder(kind).glob("*.py")):
        if not file.stem.startswith("_"):
            doc = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
            found[file.stem] = doc.split("\n", 1)[0]
    for name, point in _entry_points(kind).items():
        found.setdefault(name, f"from {point.value}")
    return found


def _factory(kind: Kind, name: str) -> Any:
    if (_folder(kind) / f"{name}.py").is_file() and not name.startswith("_"):
        module = f"keff.{PLURAL[kind]}.{name}"
        try:
            return getattr(importlib.import_module(module), kind)
        except ImportError as error:
            raise missing_extra(error, f"{kind} {name}") from error
    point = _entry_points(kind).get(name)
    if point is None:
        raise PluginError(f"unknown {kind} {name!r}; there are: {', '.join(names(kind))}")
    return point.load()


def load(kind: Kind, name: str, **options: Any) -> Any:
    """Make the plugin ``name`` of a kind, with its options as keywords.

    Raises PluginError for an unknown name, a missing extra, or an option that the plugin does not have.
    """
    factory = _factory(kind, name)
    try:
        inspect.signature(factory).bind(**options)
    except TypeError as error:
        raise PluginError(f"{kind} {name}: {error}") from error
    return factory(**options)
