"""Votes: the answers and correctness of n items x K paths, the input of every statistic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Int16Array = NDArray[np.int16]
Float32Array = NDArray[np.float32]
Kind = TypeVar("Kind", bound=np.generic)

# The name of the confidence that a record has under no other name.
CONFIDENCE = "confidence"

# Among the named values the one that is no confidence: the seconds that each rating by a verifier took.
RATING_SECONDS = "rating_seconds"

# What has a value for each path [n, K].
PER_PATH = ("answers", "correct", "tokens", "confidences", "prompt_tokens", "seconds", "cached_tokens")

_set = object.__setattr__  # a frozen value, while it is being made


@dataclass(frozen=True, slots=True, eq=False)
class Votes:
    """The votes of n items with K paths each.

    ``answers`` [n, K] integer codes, equal within an item when the canonical keys are equal, -1 abstains
    (None when only correctness is known). ``correct`` [n, K] 0 or 1 (None without gold labels); an
    abstention is never correct. ``slots`` [K] template of each column (None: all exchangeable).
    ``clusters`` [n] integer cluster of each item (default: every item its own). ``tokens`` [n, K] generated
    tokens, ``prompt_tokens`` those of the prompt as billed with each path, ``cached_tokens`` the part of
    these that the server had cached, ``seconds`` its wall time and ``confidences``, each [n, K] where known;
    ``named`` are further confidences by name, and the ``RATING_SECONDS`` of the usual one. Answers and
    correctness given as int8 are kept so, else as int64. ``closed`` says that the answer set is closed and
    codes mean the same answer in every item (choice, binary). ``tries`` [n] say how many were made until one
    passed a checker, below 0 where none did, if that is when they ended: the paths are the first of them.

    Raises ValueError on NaN, values out of range, ragged rows and shapes that do not fit.
    """

    answers: IntArray | None
    correct: IntArray | None
    slots: IntArray | None = None
    clusters: IntArray | None = None
    tokens: FloatArray | None = None
    confidences: FloatArray | None = None
    closed: bool = False
    prompt_tokens: FloatArray | None = None
    seconds: FloatArray | None = None
    cached_tokens: FloatArray | None = None
    named: Mapping[str, FloatArray] = field(default_factory=dict[str, "FloatArray"])
    tries: IntArray | None = None

    def __post_init__(self) -> None:
        answers = None if self.answers is None else _integers(self.answers, "answers", 2)
        correct = None if self.correct is None else _binary(self.correct)
        matrix = answers if answers is not None else correct
        if matrix is None:
            raise ValueError("votes need answers, correctness or both")
        n, k = matrix.shape
        if n < 1 or k < 1:
            raise ValueError(f"votes need at least one item and one path, got {n} x {k}")
        if answers is not None and answers.min() < -1:
            raise ValueError("answer codes are -1 (abstains) or 0, 1, 2, ...")
        _same_shape(correct, (n, k), "correct")
        if answers is not None and correct is not None and bool(np.any(correct[answers < 0])):
            raise ValueError("a path without an answer cannot be correct: score abstentions 0")
        _set(self, "answers", answers)
        _set(self, "correct", correct)
        for name, length in (("slots", k), ("clusters", n), ("tries", n)):
            if (given := getattr(self, name)) is not None:
                _set(self, name, _same_shape(_integers(given, name, 1), (length,), name))
        # The first two, answers and correctness, are integers and were checked above.
        for name in PER_PATH[2:]:
            if (values := getattr(self, name)) is not None:
                _set(self, name, _same_shape(np.asarray(values, np.float64), (n, k), name))
        named = {name: np.asarray(values, np.float64) for name, values in self.named.items()}
        _set(self, "named", {name: _same_shape(values, (n, k), name) for name, values in named.items()})
        if self.seconds is not None and bool(np.any((self.seconds < 0) | np.isinf(self.seconds))):
            raise ValueError("seconds must be finite and not negative")

    @classmethod
    def from_correct(cls, matrix: ArrayLike, clusters: ArrayLike | None = None) -> Votes:
        """Make votes from a correctness matrix [n, K] of 0 and 1 alone."""
        return cls(None, cast("IntArray", matrix), clusters=cast("IntArray | None", clusters))

    @property
    def n(self) -> int:
        """The number of items."""
        return self._matrix.shape[0]

    @property
    def k(self) -> int:
        """The number of paths of each item."""
        return self._matrix.shape[1]

    @property
    def counts(self) -> IntArray:
        """The number of correct paths of each item, S_i [n], read-only; ValueError without gold labels."""
        return _right_counts(self)

    @property
    def hist(self) -> IntArray:
        """How many items have s correct paths, N_0..N_K [K+1]; ValueError without gold labels."""
        return np.bincount(self.counts, minlength=self.k + 1).astype(np.int64)

    @property
    def cluster_ids(self) -> IntArray:
        """The cluster of each item [n], renumbered 0..G-1; read-only."""
        return _groups(self)[0]

    @property
    def n_clusters(self) -> int:
        """The number G of distinct clusters: the independent units."""
        return _groups(self)[1]

    @property
    def p(self) -> float:
        """Mean accuracy of a path; ValueError without gold labels."""
        return float(self.scored().mean())

    def scored(self) -> IntArray:
        """Return ``correct`` [n, K]; ValueError without gold labels."""
        if self.correct is None:
            raise ValueError("these votes have no gold labels: accuracy and correlation are undefined")
        return self.correct

    def answered(self) -> IntArray:
        """Return ``answers`` [n, K]; ValueError when only correctness is known."""
        if self.answers is None:
            raise ValueError("these votes carry no answers: plurality and agreement are undefined")
        return self.answers

    def take(self, items: ArrayLike) -> Votes:
        """Return the votes of some items: indices (which may repeat) or a boolean mask [n]."""
        rows = np.asarray(items)
        own = {name: ids[rows] for name in ("clusters", "tries") if (ids := getattr(self, name)) is not None}
        return self.pick_paths(lambda values: values[rows], **own)

    def paths(self, columns: ArrayLike) -> Votes:
        """Return the votes of some paths: column indices or a boolean mask [K]."""
        chosen = np.asarray(columns)
        slots = None if self.slots is None else self.slots[chosen]
        return self.pick_paths(lambda values: values[:, chosen], slots=slots)

    def pick_paths(self, pick: Callable[[NDArray[Any]], NDArray[Any]], **others: IntArray | None) -> Votes:
        """Return votes with ``pick`` applied to every per-path array, and ``others`` replaced as given."""
        known = {name: values for name in PER_PATH if (values := getattr(self, name)) is not None}
        changes: dict[str, Any] = {name: pick(values) for name, values in known.items()}
        named = {name: pick(values) for name, values in self.named.items()}
        return replace(self, **changes, **others, named=named)

    @property
    def rated(self) -> Mapping[str, FloatArray]:
        """Every recorded confidence by name, each [n, K]."""
        named = {name: values for name, values in self.named.items() if name != RATING_SECONDS}
        return named if self.confidences is None else {CONFIDENCE: self.confidences, **named}

    @property
    def _matrix(self) -> IntArray:
        return self.answers if self.answers is not None else self.scored()


@lru_cache(maxsize=2)
def _right_counts(votes: Votes) -> IntArray:
    """Return how many paths of each item are right [n]; kept for the last few votes."""
    counts = votes.scored().sum(axis=1)
    counts.setflags(write=False)
    return counts


@lru_cache(maxsize=8)
def _groups(votes: Votes) -> tuple[IntArray, int]:
    """Return the cluster of each item [n] and how many clusters there are; kept for the last few votes."""
    ids = cluster_numbers(votes.clusters, votes.n)
    ids.setflags(write=False)
    return ids, int(ids.max()) + 1


def cluster_numbers(clusters: ArrayLike | None, n: int) -> IntArray:
    """Return the cluster of each of n items, numbered 0..G-1; without ``clusters`` every item is its own."""
    given = np.arange(n) if clusters is None else np.asarray(clusters)
    if bool(np.all(given[1:] > given[:-1])):  # every item its own, in order: nothing to sort
        return np.arange(given.size, dtype=np.int64)
    return np.unique(given, return_inverse=True)[1].astype(np.int64)


def as_hist(source: Votes | ArrayLike) -> IntArray:
    """Return the count histogram N_0..N_K of votes, or check a histogram that was given.

    A statistic of how many items have s right paths takes either: its cost then does not depend on n.
    """
    if isinstance(source, Votes):
        return source.hist
    hist = _integers(source, "count histogram", 1)
    if hist.size < 2 or hist.min() < 0 or hist.sum() < 1:
        raise ValueError("a count histogram is N_0..N_K, non-negative, with at least one item and one path")
    return hist


def _same_shape(array: NDArray[Kind] | None, shape: tuple[int, ...], name: str) -> NDArray[Kind] | None:
    if array is not None and array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, expected {shape}")
    return array


def _array(values: ArrayLike, name: str, ndim: int) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} is ragged: every row needs the same number of paths") from None
    if array.dtype == object:
        raise ValueError(f"{name} is ragged, or holds something that is not a number")
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got {array.ndim}")
    return array


def _integers(values: ArrayLike, name: str, ndim: int) -> IntArray:
    array = _array(values, name, ndim)
    whole = array.dtype.kind in "iub" or (
        array.dtype.kind == "f" and bool(np.all(np.isfinite(array) & (array == np.floor(array))))
    )
    if not whole:
        raise ValueError(f"{name} must hold integers, without NaN")
    return _wide(array)


def _binary(values: ArrayLike) -> IntArray:
    array = _array(values, "correct", 2)
    if array.dtype.kind not in "iubf" or not np.all((array == 0) | (array == 1)):
        raise ValueError("correct must hold only 0 and 1, without NaN")
    return _wide(array)


def _wide(array: NDArray[Any]) -> IntArray:
    """Return integers of eight bytes; single bytes of large records stay as they are.

    numpy sums bytes in eight bytes, but multiplies and adds them in one: who does must widen them.
    """
    return cast("IntArray", array) if array.dtype == np.int8 else array.astype(np.int64)
