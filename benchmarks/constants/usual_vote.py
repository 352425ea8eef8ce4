"""Fit how the gain of a vote usually varies between questions, families left out.

    python -m benchmarks.constants usual_vote

One path is replayed against the vote of eight on every record. Found is the variance over questions of what
one path loses, for each answer that it changes. Each family by data set weighs the same.
"""

from __future__ import annotations

import numpy as np

from benchmarks.analysis.decision import of_one_model
from benchmarks.constants._row import HEAD, row, span
from benchmarks.families import Record
from keff.analysis.decision.outcomes import replay_rules
from keff.policy import parse_policy
from keff.stats.votes import FloatArray

PATHS = 8


def measured(record: Record) -> FloatArray:
    """Return the variance of one path's loss, and the answers that it changes."""
    votes = record.votes.paths(np.arange(min(record.votes.k, PATHS)))
    seen = replay_rules(votes, [parse_policy("fixed:1")], parse_policy(f"fixed:{votes.k}"))
    assert seen.loss is not None
    loss = seen.loss[:, 0]
    variance = seen.rows.mean(loss**2) - seen.rows.mean(loss) ** 2
    return np.array([variance, seen.rows.mean(seen.flips[:, 0])])


def fitted(groups: list[FloatArray]) -> float:
    """Return the variance for each changed answer, from families [records, 2]."""
    variance, flips = np.mean([group.mean(axis=0) for group in groups], axis=0)
    return float(variance / flips)


def main() -> None:
    """Print the number, and how far it moves without each family."""
    sources = of_one_model()
    found = {each.name: measured(each) for each in sources}
    families = sorted({each.data_set for each in sources})
    groups = {name: np.array([found[e.name] for e in sources if e.data_set == name]) for name in families}
    without = [fitted([groups[other] for other in families if other != name]) for name in families]
    variance = fitted([*groups.values()])
    print(f"{len(sources)} workloads of {len(families)} families by data set\n\n{HEAD}")
    print(row("keff.analysis.decision.posterior:USUAL_VARIANCE", variance, span(without)))


if __name__ == "__main__":
    main()
