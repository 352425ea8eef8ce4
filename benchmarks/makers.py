"""Makers of simulated workloads for ``benchmarks.verdicts``: one knob each, gain of a vote rising with it."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from keff.stats.votes import FloatArray, Votes

HASH_CODES = 10_000
LEAST_SHARE = 1e-12


class Maker(Protocol):
    """Makes n questions x k paths of a workload whose gain rises with ``knob`` in 0..1."""

    def __call__(self, knob: float, n: int, k: int, rng: np.random.Generator) -> Votes: ...


def from_beliefs(beliefs: FloatArray, k: int, rng: np.random.Generator) -> Votes:
    """Draw paths from beliefs [n, answers], of which answer 0 is right."""
    codes = (rng.random((len(beliefs), k, 1)) > beliefs.cumsum(axis=1)[:, None, :-1]).sum(axis=2)
    return Votes(codes, (codes == 0).astype(np.int64))


def dirichlet(lean: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw one Dirichlet a row."""
    shares = np.maximum(rng.standard_gamma(lean), LEAST_SHARE)
    return shares / shares.sum(axis=1, keepdims=True)


def two_answers(knob: float, n: int, k: int, rng: np.random.Generator) -> Votes:
    """Questions whose paths are right with chance .4 or .6, or .95."""
    hard = rng.random(n) < 0.6
    right = np.where(hard, np.where(rng.random(n) < knob, 0.6, 0.4), 0.95)
    return from_beliefs(np.column_stack([right, 1 - right]), k, rng)


def misleading(knob: float, n: int, k: int, rng: np.random.Generator) -> Votes:
    """Mostly easy questions, and some on which one wrong answer beats the right one."""
    trap = rng.random(n) < 0.7 * (1 - knob)
    right = np.where(trap, 0.3, rng.beta(6, 1, n))
    rest = 1 - right
    first = np.where(trap, 0.8, 0.4) * rest
    return from_beliefs(np.column_stack([right, first, *[(rest - first) / 3] * 3]), k, rng)


def choice(knob: float, n: int, k: int, rng: np.random.Generator) -> Votes:
    """Four answers, beliefs from a Dirichlet law that leans on the right or on a wrong one."""
    lean = np.full((n, 4), 0.5)
    lean[np.arange(n), np.where(rng.random(n) < knob, 0, 1)] += 2.0
    return from_beliefs(dirichlet(lean, rng), k, rng)


def hashes(knob: float, n: int, k: int, rng: np.random.Generator) -> Votes:
    """Accuracy about .23: right programs hardly share a hash, and wrong ones meet more the lower the knob."""
    right = rng.random((n, k)) < rng.beta(0.5, 1.7, n)[:, None]
    own = np.arange(k) + 10
    meets = rng.random((n, k)) < 0.6 * (1 - knob)
    same = rng.random((n, k)) < 0.5 * knob
    codes = np.where(right, np.where(same, 0, own + HASH_CODES), np.where(meets, 1, own))
    return Votes(codes, right.astype(np.int64))


KINDS = np.array(
    [
        [8, 1, 0.5, 0.5, 0.2, 0.2, 0.2, 0.2],
        [3.2, 6, 0.5, 0.5, 0.1, 0.1, 0.1, 0.1],
        [1, 1, 1, 1, 0.01, 0.01, 0.01, 0.01],
        [2, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5],
    ]
)
"""Dirichlet laws of four kinds of question: solid, misled by one answer, a guess among four, scattered."""


def kinds(knob: float, n: int, k: int, rng: np.random.Generator) -> Votes:
    """A mixture of four kinds of question with Dirichlet answers; fewer are misled the higher the knob."""
    misled = 0.9 * (1 - knob)
    kind = (rng.random((n, 1)) > np.array([0.07, 0.07 + misled, 0.09 + misled])).sum(axis=1)
    return from_beliefs(dirichlet(KINDS[kind], rng), k, rng)


def rivals(knob: float, n: int, k: int, rng: np.random.Generator) -> Votes:
    """Ten wrong answers compete, and on most questions one of them more than the others."""
    lean = np.full((n, 11), 0.2)
    lean[:, 0] = 0.9 + knob
    lean[rng.random(n) < 0.85, 1] += 3.0 * (1 - knob)
    return from_beliefs(dirichlet(lean, rng), k, rng)


def turning(knob: float, n: int, k: int, rng: np.random.Generator) -> Votes:
    """Questions whose own curve turns: the right answer first leaves the dust behind, then a rival wins."""
    hard = rng.random(n) < 0.85
    lead = np.where(rng.random(n) < knob, 0.02, -0.12)
    right = np.where(hard, 0.3 + lead, rng.beta(5, 1.5, n))
    rival = np.where(hard, 0.3 - lead, (1 - right) * 0.4)
    dust = (1 - right - rival) / 5
    return from_beliefs(np.column_stack([right, rival, *[dust] * 5]), k, rng)


def two_levels(knob: float, n: int, k: int, rng: np.random.Generator) -> Votes:
    """Easy and hard questions by a logit-normal law; wrong answers of most questions meet."""
    centre = np.where(rng.random(n) < 0.3, 1.6, 2.2 * knob - 1.5)
    right = 1 / (1 + np.exp(-rng.normal(centre, 0.35)))
    scatter = np.where(rng.random(n) < 0.9, 0.1, 3.0)
    wrong = dirichlet(np.repeat(scatter[:, None], 6, axis=1), rng) * (1 - right)[:, None]
    return from_beliefs(np.column_stack([right, wrong]), k, rng)


KNOWN: dict[str, Maker] = {
    "two answers": two_answers,
    "misleading": misleading,
    "choice": choice,
    "hashes": hashes,
}
"""The makers that were looked at while the verdict was written."""

HELD_OUT: dict[str, Maker] = {
    "kinds": kinds,
    "rivals": rivals,
    "turning": turning,
    "two levels": two_levels,
}
"""Makers written after it, by which nothing was set."""
