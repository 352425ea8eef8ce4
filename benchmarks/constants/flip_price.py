"""Fit what a changed answer costs, as a part of the accuracy, to recorded workloads, families left out.

    python -m benchmarks.constants flip_price

Every rule of the chain of eight paths is replayed on every record; each family by data set weighs the same.
What deep rules lose is small and differs by the orders that are drawn: the mean of eight replays is found.
``benchmarks.analysis.decision`` judges decisions at the prices of the other families.
"""

from __future__ import annotations

import numpy as np

from benchmarks.analysis.decision import REFERENCE, RULES, by_question, fit, of_one_model
from benchmarks.constants._row import HEAD, row, span

REPLAYS = 8


def main() -> None:
    """Print the three numbers of the prior."""
    sources = of_one_model()
    families = {each.name: each.data_set for each in sources}
    named = sorted(set(families.values()))
    replays = [
        {each.name: by_question(each.votes, RULES, REFERENCE, seed) for each in sources}
        for seed in range(REPLAYS)
    ]
    print(f"{len(sources)} workloads of {len(named)} families by data set\n\n{HEAD}")
    drawn = [fit(truth, families, None) for truth in replays]
    without = {name: [fit(truth, families, name) for truth in replays] for name in named}
    for field in ("one_path", "deep", "sd"):
        whole = [getattr(each, field) for each in drawn]
        left = span(float(np.mean([getattr(each, field) for each in other])) for other in without.values())
        told = f"{left} (by replay, none left out, {span(whole)})"
        print(row(f"keff.analysis.decision.prior:GENERIC.{field}", np.mean(whole), told))


if __name__ == "__main__":
    main()
