"""Answers of each item renumbered 0, 1, ... in order of first use: few small numbers, whatever they were."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.stats.votes import IntArray

ABSTAINS = -1


def dense_codes(answers: IntArray | NDArray[np.int32]) -> NDArray[np.int16]:
    """Renumber the answers of each item [n, K] to 0, 1, ... in order of first use; -1 stays."""
    out = np.empty(answers.shape, np.int16)
    for start in range(0, len(answers), DENSE_ROWS):
        block = answers[start : start + DENSE_ROWS]
        out[start : start + DENSE_ROWS] = block if _is_dense(block) else _dense_block(block)
    return out


# So many items are renumbered at a time, so that memory does not grow with the record.
DENSE_ROWS = 16_384


def _is_dense(answers: IntArray | NDArray[np.int32]) -> bool:
    """Return whether answers are numbered by first use already, as those of a record that was read are."""
    if int(answers.max(initial=0)) >= answers.shape[1] or int(answers.min(initial=0)) < ABSTAINS:
        return False
    highest: NDArray[np.int16] = np.maximum.accumulate(answers.astype(np.int16), axis=1)
    return bool(np.all(highest[:, :1] <= 0) and np.all(np.diff(highest, axis=1) <= 1))


def _dense_block(answers: IntArray | NDArray[np.int32]) -> NDArray[np.int16]:
    n, k = answers.shape
    order, ordered = _by_answer(answers)
    starts = np.ones((n, k), bool)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    # The stable order puts the first use of an answer first among its equals.
    flat = np.flatnonzero(starts.ravel())
    first = np.repeat(order.ravel()[flat], np.diff(np.append(flat, n * k))).reshape(n, k)
    uses = np.zeros((n, k), np.int16)
    row = flat // k
    voting = ordered.ravel()[flat] >= 0
    uses[row[voting], order.ravel()[flat][voting]] = 1
    number = np.take_along_axis(uses.cumsum(axis=1, dtype=np.int16) - np.int16(1), first, axis=1)
    out = np.empty((n, k), np.int16)
    np.put_along_axis(out, order, np.where(ordered >= 0, number, np.int16(ABSTAINS)), axis=1)
    return out


def _by_answer(answers: IntArray | NDArray[np.int32]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the places of each item's paths by answer, equal ones in order [n, K], and the answers sorted.

    A stable ``argsort``, several times faster, by sorting numbers: the answer, and its place below it.
    """
    bits = (answers.shape[1] - 1).bit_length()
    kind = np.int32 if int(answers.max(initial=0)) < 2 ** (31 - bits) else np.int64
    keys = answers.astype(kind) << kind(bits)
    keys |= np.arange(answers.shape[1], dtype=kind)
    keys.sort(axis=1)
    return keys & kind((1 << bits) - 1), keys >> kind(bits)
