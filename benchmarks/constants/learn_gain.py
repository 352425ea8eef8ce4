"""Learn what predictions beyond the pilot err from recorded generations, families counting alike.

    python -m benchmarks.constants learn_gain

    MODEL_SD, LINE_SD   what predictions of plurality beyond the pilot err, beyond the pilot's own sampling: a
                        standard deviation for each unit of 1/K0 - 1/k, for the answer model on workloads
                        whose right answers meet and for the line in 1/k on the others
    LAW_SD              the same for the beta-binomial majority, on the logit scale, for each unit of 1 - 2/k

Pilots of min(50, n/2) questions and 4 or 8 paths. A mean square is taken over the pilots of a record, the
records of a family and then over families, less the pilots' own sampling variance (times 1 - m/n, for the
truth is that of the same finite record). A standard deviation from m families is enlarged by the ratio of the
95% quantiles of Student's t with m degrees of freedom and of the normal law: 2.2 for two families, 1.08 for
seventeen.
"""

from __future__ import annotations

import argparse
import importlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from benchmarks.constants._row import HEAD, row, span
from benchmarks.families import PARTITIONS, Record, pilot, records
from keff.stats.intervals import majority_fits
from keff.stats.models import plurality_model
from keff.stats.models.betabinomial import majority_at_k, majority_curve
from keff.stats.votes import Votes
from keff.stats.voting.correlation import MEETS, anova_c, right_answers_meet
from keff.stats.voting.plurality import plurality_at_k

QUESTIONS, PATHS, TARGETS, CAP = 50, (4, 8), (8, 16, 32), 32
NORMAL = 1.96
LEAST_WITHIN = 0.005
"""A record whose paths are all but alike says nothing about what a vote brings."""


PLACES = {
    "MODEL_SD": "keff.stats.models.plurality_model",
    "LINE_SD": "keff.stats.models.plurality_model",
    "LAW_SD": "keff.stats.influence",
}


@dataclass(frozen=True)
class Piece:
    """One record's contribution to one constant: ``value`` for each ``unit`` (squares)."""

    record: Record
    value: float
    unit: float = 1.0


@contextmanager
def using(values: dict[str, float]) -> Iterator[None]:
    """Put constants in place of those learned from all families."""
    places = {name: importlib.import_module(module) for name, module in PLACES.items()}
    before = {name: getattr(place, name) for name, place in places.items()}
    for name, place in places.items():
        setattr(place, name, values.get(name, before[name]))
    try:
        yield
    finally:
        for name, place in places.items():
            setattr(place, name, before[name])


def without_between() -> AbstractContextManager[None]:
    """Leave predictions their sampling error only, to measure what there is beyond it."""
    return using({"MODEL_SD": 0.0, "LINE_SD": 0.0})


def pieces(sources: Sequence[Record], draws: int) -> dict[str, list[Piece]]:
    """Return every record's contribution to every constant."""
    out: dict[str, list[Piece]] = defaultdict(list)
    for index, record in enumerate(sources):
        rng = np.random.default_rng([7, index])
        meets = not right_answers_meet(record.votes).r.value < MEETS
        beyond, law = zip(*(errors(record.votes, k0, rng) for k0 in PATHS for _ in range(draws)), strict=True)
        for name, values in (("MODEL_SD" if meets else "LINE_SD", beyond), ("LAW_SD", law)):
            flat = [pair for part in values for pair in part]
            if flat:
                out[name].append(Piece(record, *np.mean(flat, axis=0).tolist()))
    return out


Pairs = list[tuple[float, float]]


def errors(votes: Votes, k0: int, rng: np.random.Generator) -> tuple[Pairs, Pairs]:
    """Return squares of one pilot's errors beyond sampling, each with the square of its unit.

    Of plurality beyond the pilot, and of the beta-binomial majority.
    """
    m = min(QUESTIONS, votes.n // 2)
    drawn = pilot(votes, m, k0, rng)
    ks = [k for k in TARGETS if k0 < k <= votes.k] or [votes.k] * (votes.k > k0)
    spare, t = 1 - m / votes.n, float(stdtrit(m - 1, 0.975))
    curve, beyond = plurality_at_k(votes), Pairs()
    for forecast in plurality_model.predict_plurality(drawn, ks) if ks else ():
        lo, hi = forecast.gain.lo, forecast.gain.hi
        assert lo is not None and hi is not None
        error = forecast.gain.value - (curve[forecast.k - 1] - curve[k0 - 1])
        unit = 1 / k0 - 1 / forecast.k
        beyond.append((float(error**2 - spare * ((hi - lo) / 2 / t) ** 2), unit**2))
    return beyond, law_errors(votes, drawn, [k for k in TARGETS if k <= votes.k], spare)


def law_errors(votes: Votes, drawn: Votes, ks: list[int], spare: float) -> Pairs:
    """Return the squares for the beta-binomial at ``ks``; a unit of logit is MV(1 - MV) (1 - 2/k)."""
    if drawn.p in (0.0, 1.0) or not ks:
        return []
    fitted, c = majority_fits(drawn), min(max(anova_c(drawn), 0.0), 1.0)
    curves, curve = fitted.majority(max(ks)), majority_curve(max(ks), drawn.p, c)
    truth, out = majority_at_k(votes), Pairs()
    for k in ks:
        values = curves[:, k - 1]
        sampling = float(fitted.weight @ (values - fitted.weight @ values) ** 2)
        error = float(curve[k - 1] - truth[k - 1])
        unit = float(truth[k - 1] * (1 - truth[k - 1])) * (1 - 2 / k)
        out.append((error**2 - spare * sampling, unit**2))
    return out


def constants(parts: dict[str, list[Piece]], keep: Callable[[Record], bool]) -> dict[str, float]:
    """Return the constants from the records that are kept."""
    out = dict[str, float]()
    for name in PLACES:
        value, unit = _mean(parts[name], keep, "value"), _mean(parts[name], keep, "unit")
        families = {piece.record.data_set for piece in parts[name] if keep(piece.record)}
        # A spread known from few families is larger than it looks, by Student's t with as many degrees.
        few = float(stdtrit(max(len(families), 1), 0.975)) / NORMAL
        out[name] = few * max(value / unit, 0.0) ** 0.5
    return out


def _mean(parts: list[Piece], keep: Callable[[Record], bool], what: str) -> float:
    """Return the mean over the families of the records that are kept."""
    families: dict[str, list[float]] = defaultdict(list)
    for piece in parts:
        if keep(piece.record):
            families[piece.record.data_set].append(getattr(piece, what))
    return float(np.mean([np.mean(family) for family in families.values()])) if families else float("nan")


def left_out(parts: dict[str, list[Piece]], sources: Iterable[Record]) -> dict[str, dict[str, float]]:
    """Return the constants without each family of either partition, by its name."""
    known = list(sources)
    names = {(p, r.family(p)) for p in PARTITIONS for r in known}
    return {
        f"{name} ({p})": constants(parts, lambda r, p=p, name=name: r.family(p) != name)
        for p, name in sorted(names)
    }


def main() -> None:
    """Print the constants, with each family left out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=16)
    options = parser.parse_args()
    sources = records(8)
    with without_between():
        parts = pieces(sources, options.draws)
    without = left_out(parts, sources)
    print(f"{len(sources)} workloads of {len({r.data_set for r in sources})} families by data set\n\n{HEAD}")
    for name, value in constants(parts, lambda _: True).items():
        others = [found[name] for found in without.values() if np.isfinite(found[name])]
        print(row(f"{PLACES[name]}:{name}", value, span(others)))


if __name__ == "__main__":
    main()
