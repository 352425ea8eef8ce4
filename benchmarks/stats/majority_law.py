"""How often the beta-binomial's interval of majority at 32 paths covers, on recorded workloads that are
left out.

``python -m benchmarks.stats.majority_law [--draws 20]``

Pilots of 50 x 8 and 100 x 8 (at most half of a record) from every record with at least 48 paths; the truth
is the
exact subset average of the whole record. A pilot of half a record errs less than one of endless questions:
"whole"
shrinks the interval by sqrt(1 - m/n). The law's own error comes from the other families by data set. Beside
the model
stands no prediction at all, the majority measured at 8 paths: where its error is smaller, the model adds
nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.constants import learn_gain
from benchmarks.families import Record, pilot, records
from keff.stats.influence import summarise
from keff.stats.intervals import majority_fits
from keff.stats.models.betabinomial import majority_at_k, majority_beta_binomial

K, PATHS = 32, 8


@dataclass(frozen=True)
class Trial:
    """One pilot: errors of the model and of no prediction, and which intervals held the truth."""

    model: float
    none: float
    plain: bool
    whole: bool
    without_law: bool


def trials(record: Record, size: int, draws: int, rng: np.random.Generator) -> Iterator[Trial]:
    """Yield the pilots of one record."""
    truth, m = float(majority_at_k(record.votes)[K - 1]), min(size, record.votes.n // 2)
    scale = (1 - m / record.votes.n) ** 0.5
    for _ in range(draws):
        drawn = pilot(record.votes, m, PATHS, rng)
        if drawn.p in (0.0, 1.0):
            continue
        fits, law = majority_fits(drawn), summarise(drawn)
        drawn_votes = fits.majority(K)[:, -1]
        value = float(majority_beta_binomial(K, law.p, min(max(law.adjusted, 0.0), 1.0)))
        lo, hi = fits.majority_interval(drawn_votes, K)
        old = fits.interval(drawn_votes)
        yield Trial(
            model=value - truth,
            none=float(majority_at_k(drawn)[-1]) - truth,
            plain=lo <= truth <= hi,
            whole=value - (value - lo) * scale <= truth <= value + (hi - value) * scale,
            without_law=value - (value - old[0]) * scale <= truth <= value + (old[1] - value) * scale,
        )


def main() -> None:
    """Print the coverage and the errors."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=20)
    options = parser.parse_args()
    sources = records(8)
    with learn_gain.without_between():
        parts = learn_gain.pieces(sources, 3)
    for size in (50, 100):
        runs: list[Trial] = []
        for index, record in enumerate(r for r in sources if r.votes.k >= 48):
            left = learn_gain.constants(parts, lambda r, f=record.data_set: r.data_set != f)
            with learn_gain.using(left):
                runs += trials(record, size, options.draws, np.random.default_rng([8, size, index]))
        share = {
            name: np.mean([getattr(run, name) for run in runs]) for name in ("plain", "whole", "without_law")
        }
        rmse = {
            name: np.sqrt(np.mean([getattr(run, name) ** 2 for run in runs])) for name in ("model", "none")
        }
        what = f"beta-binomial majority at {K}, {size} x {PATHS}, {len(runs)} pilots"
        print(
            f"{what}: coverage of its 95% interval, as from endless questions, without the law's error: "
            f"{share['plain']:.1%}, {share['whole']:.1%}, {share['without_law']:.1%}"
        )
        print(f"{what}: error of the model, of no prediction: {rmse['model']:.2%}, {rmse['none']:.2%}")


if __name__ == "__main__":
    main()
