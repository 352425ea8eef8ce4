"""How a fit says what it found: a row for each constant, beside its value in place and others left out."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from operator import attrgetter

import numpy as np

HEAD = "| constant | found | in place | any family left out |\n|---|---|---|---|"


def written(value: object) -> str:
    """Return a constant as rows write it."""
    return " ".join(f"{number:.3g}" for number in np.ravel(np.asarray(value, np.float64)).tolist())


def in_place(constant: str) -> str:
    """Return the value of ``module:NAME`` or ``module:NAME.field`` in the package, as rows write it."""
    module, _, name = constant.partition(":")
    return written(attrgetter(name)(importlib.import_module(module)))


def row(constant: str, found: object, left_out: str) -> str:
    """Return the row of one constant."""
    return f"| {constant} | {written(found)} | {in_place(constant)} | {left_out} |"


def span(values: Iterable[float]) -> str:
    """Return the least and the most of what is found without one family."""
    known = sorted(values)
    return f"{known[0]:.3g} to {known[-1]:.3g}"
