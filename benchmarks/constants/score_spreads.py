"""Fit what the law of scores errs, and how two models differ by question, to recorded workloads.

    python -m benchmarks.constants score_spreads

``BEYOND_SD`` is the root mean square error of logit pass^8 from 4 trials, the largest of eight draws of
trials. ``BETWEEN_MODELS`` is the variance of the difference of two models' means of a question over that of
one model's, their sampling taken out: the median over pairs of each data set, and the mean of these.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from benchmarks.constants._row import HEAD, row, span
from benchmarks.families import Record, records
from benchmarks.stats.repeats import law_errors, without_each
from keff.stats.repeats import Repeats

DRAWS = 8


def beyond(workloads: list[Record]) -> None:
    """Print the row of ``BEYOND_SD``, and what each draw of trials says."""
    whole, left = list[float](), list[float]()
    for seed in range(DRAWS):
        errors = law_errors(workloads, np.random.default_rng(seed))
        whole.append(math.sqrt(float(np.mean([value**2 for _, value in errors]))))
        left += without_each(errors).values()
    print(row("keff.stats.scores:BEYOND_SD", max(whole), span(left)))
    print(f"\n{len(errors)} workloads; by the draw of trials, none left out, {span(whole)}\n\n{HEAD}")


def between(workloads: list[Record]) -> None:
    """Print the row of ``BETWEEN_MODELS``, and the ratio of each data set."""
    found: dict[str, list[float]] = {}
    for a, b in combinations(workloads, 2):
        if a.data_set == b.data_set and a.votes.n == b.votes.n:
            sides = [Repeats.of_votes(each.votes) for each in (a, b)]
            noise = [float(np.mean(side.variances / side.count)) for side in sides]
            own = np.mean([side.mean.var(ddof=1) - of for side, of in zip(sides, noise, strict=True)])
            apart = float(np.var(sides[0].mean - sides[1].mean, ddof=1)) - sum(noise)
            found.setdefault(a.data_set, []).append(apart / float(own))
    medians = {name: float(np.median(values)) for name, values in found.items()}
    left = [np.mean([value for own, value in medians.items() if own != name]) for name in medians]
    print(row("keff.analysis.scores:BETWEEN_MODELS", np.mean(list(medians.values())), span(map(float, left))))
    print(f"\n{sum(map(len, found.values()))} pairs of models; medians of data sets:")
    print(", ".join(f"{name} {value:.2f}" for name, value in medians.items()))


def main() -> None:
    """Print both."""
    workloads = records(10)
    print(HEAD)
    beyond(workloads)
    between(workloads)


if __name__ == "__main__":
    main()
