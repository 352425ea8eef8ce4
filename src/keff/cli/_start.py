"""Faster start of the command line: unused parts of numpy and scipy are not imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

# What numpy says of its compiled functions in help() and nowhere else: a tenth of its import. ``python -OO``
# leaves it out too.
DOCSTRINGS = ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars")


def without_docstrings() -> None:
    """Import numpy without the docstrings of its compiled functions."""
    for name in DOCSTRINGS:
        sys.modules.setdefault(name, ModuleType(name))


# Parameters of mallopt(3) with bytes: arrays up to the first are carved from memory that is held, which is
# handed back beyond the second. 32 MB is the most that glibc allows.
MEMORY = {-3: 32 << 20, -1: 256 << 20}


def keep_memory() -> None:
    """Make the C library reuse freed memory instead of returning it to the system.

    It would hand back that of large ones, and each page of the next would be made anew: a tenth of the time
    of an analysis.
    """
    import ctypes

    with suppress(OSError, AttributeError):  # another system, or a C library without mallopt
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        for parameter, size in MEMORY.items():
            mallopt(parameter, size)


class _Partial(ModuleType):
    """A partly imported module; any missing name triggers the full import."""

    def __getattr__(self, name: str) -> Any:
        self.__class__ = ModuleType  # pyright: ignore[reportAttributeAccessIssue]
        assert self.__spec__ is not None
        assert self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def _begin(name: str, part: Mapping[str, Any]) -> None:
    """Import only a part of a module for now, unless it is loaded already."""
    spec = None if name in sys.modules else find_spec(name)
    if spec is None:
        return
    module = module_from_spec(spec)
    module.__class__ = _Partial
    vars(module).update(part)
    package, _, own = name.rpartition(".")
    sys.modules[name] = module
    setattr(sys.modules[package], own, module)


def _unmasked(_: object) -> bool:
    return False


def only_compiled() -> None:
    """Import only the compiled functions of scipy.special for now, and of numpy.ma that nothing is masked.

    What scipy.special holds besides, and the rewriting of all its docstrings, takes as long to import as
    numpy; numpy.unique asks whether an array is masked.
    """
    _begin("numpy.ma", {"is_masked": _unmasked})
    _begin("scipy.special", {})
    with suppress(ImportError, AttributeError):  # another SciPy: as it is
        compiled = import_module("scipy.special._ufuncs")
        vars(sys.modules["scipy.special"]).update(
            {each: getattr(compiled, each) for each in compiled.__all__}
        )


def as_given(parameter: Any) -> Any:
    """Return a command-line parameter converted without pydantic.

    typer imports it to convert each of them, a sixth of the start; numbers that are given, also in a file,
    still go through it, which knows their bounds.
    """
    if "process_value" in vars(parameter):
        return parameter
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    convert: Callable[[Any, Any], Any] = parameter.process_value

    def process_value(ctx: Any, value: Any) -> Any:
        if value is None and not parameter.required:
            value = () if parameter.multiple or parameter.nargs == -1 else None
        elif value is not None and kind is Path:
            value = Path(value)
        elif value and kind in (list[Path], list[str]) and not isinstance(value, str):
            value = [get_args(kind)[0](each) for each in value]
        elif value is None or (kind is not str and value is not parameter.default):
            return convert(ctx, value)
        return value if parameter.callback is None else parameter.callback(ctx, parameter, value)

    parameter.process_value = process_value
    return parameter
