"""Plugins by kind and name: our own files in the plural folders, and entry points of other packages.

A plugin of kind ``task`` is a module that has a callable ``task(**options)``, a class or a function; likewise
``engine``, ``policy``, ``log`` and ``space``. Other packages add theirs with an entry point in the group
``keff.tasks`` (or ``keff.engines``, ...) whose object is that callable.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, reduce
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from keff.errors import PluginError, unknown
from keff.records import frozen

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

    from pydantic import TypeAdapter

Kind = Literal["task", "engine", "policy", "log", "space"]

# The plural of a kind; the entry points of other packages are in the group ``keff.<plural>``.
PLURAL: dict[Kind, str] = {
    "task": "tasks",
    "engine": "engines",
    "policy": "policies",
    "log": "logs",
    "space": "spaces",
}

# The folder that holds the plugins of a kind.
PACKAGE: dict[Kind, str] = {**PLURAL, "space": "answers"}

# What pydantic says beside the type that it wants.
NOT_WANTED = "^Input should be |, (?:got|unable to) .*"

# Which extra of keff brings an importable package.
EXTRA = {
    "openai": "openai",
    "xllamacpp": "llamacpp",
    "torch": "hf",
    "transformers": "hf",
    "gguf": "hf",
    "accelerate": "hf",
    "vllm": "vllm",
    "ray": "ray",
    "starlette": "serve",
    "uvicorn": "serve",
    "prometheus_client": "serve",
    "opentelemetry": "otel",
    "vl_convert": "report",
    "jinja2": "report",
    "math_verify": "math",
    "pyarrow": "parquet",
    "datasets": "data",
    "zstandard": "inspect",
    "narwhals": "frame",
    "sqlglot": "sql",
    "pint": "quantity",
    "litellm": "litellm",
    "inspect_ai": "inspect-ai",
}


def missing_extra(error: ImportError, wanted_by: str) -> PluginError:
    """Return the PluginError of an ImportError, with the extra to install."""
    package = (error.name or "").split(".")[0]
    extra = EXTRA.get(package)
    if extra is None:
        return PluginError(f"{wanted_by} cannot be imported: {error}")
    return PluginError(f"{wanted_by} needs the package {package}: {install_line(extra)}")


def install_line(extra: str) -> str:
    """Return the line that installs an extra from where keff itself was installed.

    From a checkout or an archive that is its path, for no package index may have keff.
    """
    # Slow to import, and needed only where something is missing.
    from importlib.metadata import distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    recorded = distribution("keff").read_text("direct_url.json")
    origin: dict[str, Any] = json.loads(recorded) if recorded else {}
    url = str(origin.get("url", ""))
    if not url.startswith("file://"):
        return f"pip install 'keff[{extra}]'"
    editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}'{url2pathname(urlsplit(url).path)}[{extra}]'"


def import_extra(module: str, wanted_by: str) -> Any:
    """Return a module that needs an extra of keff; raises PluginError without it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise missing_extra(error, wanted_by) from error


def names(kind: Kind) -> list[str]:
    """Return the names of a kind's plugins, our own first, without importing them."""
    return list(dict.fromkeys(each(kind)))


def each(kind: Kind) -> Iterator[str]:
    """Yield the names of a kind's plugins; other packages are searched last."""
    yield from _files(kind)
    yield from _entry_points(kind)


def has(kind: Kind, name: str) -> bool:
    """Return whether a plugin of this name exists."""
    return name in _files(kind) or name in _entry_points(kind)


def summaries(kind: Kind) -> dict[str, str]:
    """Return a kind's plugins with their one-line summaries (first docstring lines).

    Ours are read without being imported. Those of other packages are imported: the summary of one that is
    broken says why.
    """
    ours = {name: _first_line_of(file, kind) for name, file in _files(kind).items()}
    theirs = {name: _summary(kind, point) for name, point in _entry_points(kind).items()}
    return theirs | ours


def declares(kind: Kind, name: str, attribute: str) -> bool:
    """Return whether a plugin's class sets ``attribute`` to True, by its source alone.

    So the driver of a cluster knows of an engine what its own machine need not have the packages for.
    """
    classes = (node for node in _source(kind, name).body if isinstance(node, ast.ClassDef))
    return any(_sets_true(statement, attribute) for node in classes for statement in node.body)


def load(kind: Kind, name: str, **options: Any) -> Any:
    """Return the plugin ``name`` of a kind, made with its options.

    Raises PluginError for an unknown name, a missing extra, a plugin that cannot be imported, an option that
    the plugin does not have, or a text or number that does not fit its type.
    """
    made_by = factory(kind, name)
    signature = inspect.signature(made_by)
    takes_any = any(taken.kind is taken.VAR_KEYWORD for taken in signature.parameters.values())
    for option in options:
        if option not in signature.parameters and not takes_any:
            raise PluginError(f"{kind} {name}: {unknown('option', option, signature.parameters)}")
    try:
        signature.bind(**options)
    except TypeError as error:
        raise PluginError(f"{kind} {name}: {error}") from error
    return made_by(
        **{option: _as_declared(kind, name, made_by, option, options[option]) for option in options}
    )


def _as_declared(kind: Kind, name: str, made_by: Callable[..., Any], option: str, value: object) -> object:
    """Return a text or number as the type that the plugin's signature declares: a command line wrote ``.5``.

    Policies and answer spaces read their specifications themselves.
    """
    declared = _types(made_by).get(option) if kind in ("engine", "task") else None
    if declared is None or not isinstance(value, str | int | float):
        return value
    from pydantic import ValidationError

    try:
        return declared.validate_python(value)
    except ValidationError as error:
        wanted = " or ".join(re.sub(NOT_WANTED, "", part["msg"]) for part in error.errors())
        raise PluginError(f"{kind} {name}: {option} must be {wanted}, not {value!s:.80}") from None


@lru_cache(maxsize=256)
def _types(made_by: Callable[..., Any]) -> Mapping[str, TypeAdapter[Any]]:
    """Return what checks each option of a plugin; none for types that only a type checker knows."""
    # Slow to import, and needed only where a plugin is made.
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter
    from pydantic_core import SchemaError

    config = ConfigDict(arbitrary_types_allowed=True, coerce_numbers_to_str=True)
    try:
        hints = get_type_hints(made_by.__init__ if isinstance(made_by, type) else made_by)
    except (NameError, TypeError):
        return {}
    adapters: dict[str, TypeAdapter[Any]] = {}
    for option, hint in hints.items():
        with suppress(PydanticUserError, SchemaError):
            adapters[option] = TypeAdapter(hint, config=config)
    return adapters


def factory(kind: Kind, name: str) -> Callable[..., Any]:
    """Return the callable that makes the plugin ``name`` of a kind; raises PluginError."""
    return _load(kind, _point(kind, name))


def _files(kind: Kind) -> Mapping[str, Path]:
    """Return our own plugin files of a kind, by name."""
    folder = Path(__file__).parent / PACKAGE[kind]
    return _files_in(folder, folder.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _files_in(folder: Path, changed: int) -> Mapping[str, Path]:  # noqa: ARG001
    """Return a folder's files, cached until the folder changes."""
    return {file.stem: file for file in sorted(folder.glob("*.py")) if not file.stem.startswith("_")}


@frozen
class _Point:
    """Location of a plugin: its module and callable."""

    name: str
    module: str
    attr: str

    def load(self) -> object:
        return reduce(getattr, self.attr.split("."), import_module(self.module))


def _point(kind: Kind, name: str) -> _Point:
    """Return a plugin's location; our own come before other packages'."""
    if name in _files(kind):
        return _Point(name, f"keff.{PACKAGE[kind]}.{name}", kind)
    point = _entry_points(kind).get(name)
    if point is None:
        raise PluginError(unknown(kind, name, names(kind)))
    return point


def _entry_points(kind: Kind) -> dict[str, _Point]:
    points = _points_of_packages(kind, tuple(sys.path))
    return {point.name: _Point(point.name, point.module, point.attr) for point in points}


@lru_cache(maxsize=8)
def _points_of_packages(kind: Kind, path: tuple[str, ...]) -> EntryPoints:  # noqa: ARG001
    """Return other packages' entry points, cached since reading them is slow."""
    from importlib.metadata import entry_points

    return entry_points(group=f"keff.{PLURAL[kind]}")


def _load(kind: Kind, point: _Point) -> Callable[..., Any]:
    try:
        made_by = point.load()
    except ImportError as error:
        raise missing_extra(error, f"{kind} {point.name}") from error
    except Exception as error:  # somebody else's module: whatever it raises must not end a listing
        where = f"{kind} {point.name} ({point.module}:{point.attr})"
        raise PluginError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(made_by):
        raise PluginError(f"{kind} {point.name}: {point.module}:{point.attr} is not callable")
    return made_by


def _source(kind: Kind, name: str) -> ast.Module:
    """Return a plugin's parsed source; empty where unreadable."""
    try:
        spec = find_spec(_point(kind, name).module)
        return ast.parse(Path(str(spec and spec.origin)).read_text("utf-8"))
    except (ImportError, OSError, SyntaxError, ValueError):
        return ast.Module([], [])


def _targets(statement: ast.stmt) -> list[str]:
    """Return the names a statement assigns."""
    if isinstance(statement, ast.AnnAssign):
        return [ast.unparse(statement.target)]
    return list(map(ast.unparse, statement.targets)) if isinstance(statement, ast.Assign) else []


def _sets_true(statement: ast.stmt, attribute: str) -> bool:
    value = getattr(statement, "value", None)
    return attribute in _targets(statement) and isinstance(value, ast.Constant) and value.value is True


def _first_line_of(file: Path, kind: Kind) -> str:
    try:
        tree = ast.parse(file.read_text("utf-8"))
    except (SyntaxError, ValueError) as error:
        return f"broken: {error}"
    if not any(kind in (getattr(node, "name", None), *_targets(node)) for node in tree.body):
        return f"broken: it has no {kind}"
    return (ast.get_docstring(tree) or "").partition("\n")[0]


def _summary(kind: Kind, point: _Point) -> str:
    try:
        made_by = _load(kind, point)
    except PluginError as error:
        return f"broken: {error}"
    doc = inspect.getdoc(sys.modules.get(point.module)) or inspect.getdoc(made_by) or f"from {point.module}"
    return doc.partition("\n")[0]
