"""Rules at matched compute on the recorded workloads of one model: what each keeps, and what it costs.

``python -m benchmarks.policies.matched [--pilots 2] [--serve 1000]`` prints the table of docs/the-paper.md.
A pilot has 4 paths of at most 100 questions (half of a record with fewer than 200); Adaptive-K and keff's
decision see it alone, and every rule is judged on the other questions, against the vote of K_max paths: 32,
or all that a record has. Paths of the pilot are spread over the questions served. Of fixed numbers of paths
the table has, in hindsight, the least that keeps 99% on average; ``against fixed`` is the accuracy over that
of a fixed number with the same mean paths, pilot included.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from zlib import crc32

import numpy as np

from benchmarks.analysis.decision import of_one_model
from benchmarks.families import Record, pilot
from keff.analysis.decision import Aim, decide
from keff.analysis.walks import run
from keff.policy import parse_policy
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.choose import k_star
from keff.stats.voting.correlation import pooled_c
from keff.stats.voting.draws import permute_paths
from keff.stats.voting.plurality import plurality_at_k

K0, QUESTIONS, K_MAX = 4, 100, 32

CONSISTENCY, ITS_HUB = "Adaptive-Consistency, .95", "its_hub: that rule, 8 in flight"
# Li et al. 2024; Aggarwal et al. 2023; its_hub 1.2 asks that rule after every vote.
UNFITTED = {
    "ESC, windows of 5": "esc:5,cap={cap}",
    CONSISTENCY: "adaptive_consistency:0.95,cap={cap}",
    ITS_HUB: "adaptive_consistency:0.95,cap={cap}",
}
# Paths of its_hub that run when a vote ends the question. They count whole here, for most of these records
# say nothing of lengths; with lengths, on arrival: docs/in-flight.md.
STILL_RUNNING = 7
ADAPTIVE, DECISION = "Adaptive-K", "keff's decision"

# Share of the full vote's accuracy, paths as drawn and with the pilot, and the gain over a fixed number.
Row = tuple[float, float, float, float]


def fitted(seen: Votes, cap: int, seed: int) -> dict[str, str]:
    """Return the rules that a pilot gives."""
    decision = decide(seen, Aim(), now=str(cap), cap=cap, seed=seed).decision
    return {
        ADAPTIVE: f"fixed:{k_star(pooled_c(seen), 0.025, cap)}",
        DECISION: decision.policy or f"fixed:{cap}",
    }


def of_record(record: Record, pilots: int, serve: int) -> tuple[dict[str, list[Row]], FloatArray]:
    """Return each rule's rows, one a pilot, and the mean share kept by 1..K_max paths."""
    votes, cap = record.votes, min(record.votes.k, K_MAX)
    orders = max(20_000 // votes.n, 20)
    rng = np.random.default_rng(crc32(record.name.encode()))
    draws = permute_paths(votes, cap, orders, rng)
    rows: dict[str, list[Row]] = defaultdict(list)
    curves: list[FloatArray] = []
    for seed in range(pilots):
        chosen = rng.permutation(votes.n)[: min(QUESTIONS, votes.n // 2)]
        others = np.setdiff1d(np.arange(votes.n), chosen)
        seen = pilot(votes.take(np.sort(chosen)), len(chosen), K0, rng)
        curve = plurality_at_k(votes.take(others))[:cap]
        curves.append(curve / curve[-1])
        rules = {name: spec.format(cap=cap) for name, spec in UNFITTED.items()} | fitted(seen, cap, seed)
        for name, spec in rules.items():
            walks = run(parse_policy(spec), draws)
            assert walks.credit is not None
            started = walks.stop + STILL_RUNNING * (name == ITS_HUB)
            accuracy = float(walks.credit[others].mean())
            paths = float(np.minimum(started, cap)[others].mean())
            spent = paths + (name not in UNFITTED) * K0 * len(chosen) / serve
            fixed = float(np.interp(spent, np.arange(1, cap + 1), curve))
            rows[name].append((accuracy / curve[-1], paths, spent, accuracy - fixed))
    return rows, np.mean(curves, axis=0)


def table(title: str, found: Sequence[tuple[Mapping[str, list[Row]], FloatArray]]) -> None:
    """Print one row for each rule, its means over records, the fewest paths first."""
    kept = {name: np.array([np.mean(rows[name], axis=0) for rows, _ in found]) for name in found[0][0]}
    longest = max(len(curve) for _, curve in found)
    # A fixed number above what a record has is all that it has.
    curves = np.array([np.pad(curve, (0, longest - len(curve)), mode="edge") for _, curve in found])
    least = int(np.argmax(curves.mean(axis=0) >= 0.99)) + 1
    shares = curves[:, least - 1]
    paths = float(np.mean([min(least, len(curve)) for _, curve in found]))
    lines = [(float(rows[:, 2].mean()), name, rows) for name, rows in kept.items()]
    fixed = np.stack([shares, np.full_like(shares, paths), np.full_like(shares, paths), 0 * shares], axis=1)
    lines.append((paths, f"fixed:{least}, in hindsight", fixed))
    print(f"\n|{title}|paths|with the pilot|kept|worst tenth of records|against fixed, points|")
    print("|---|--:|--:|--:|--:|--:|")
    for _, name, rows in sorted(lines, key=lambda line: line[0]):
        share, drawn, spent, gain = rows.mean(axis=0)
        error = 100 * rows[:, 3].std(ddof=1) / len(rows) ** 0.5
        beside = "0" if not rows[:, 3].any() else f"{100 * gain:+.1f} (se {error:.1f})"
        worst = np.quantile(rows[:, 0], 0.1)
        print(f"|{name}|{drawn:.1f}|{spent:.1f}|{share:.1%}|{worst:.1%}|{beside}|")


def main() -> None:
    """Print a table of the records with 28 paths or more, and one of the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pilots", type=int, default=2)
    parser.add_argument("--serve", type=int, default=1000)
    asked = parser.parse_args()
    sources = of_one_model()
    if not sources:
        print("skipped: the recorded generations are not here")
        return
    found = [(record.votes.k, of_record(record, asked.pilots, asked.serve)) for record in sources]
    for deep, what in ((True, f"{K_MAX} paths or all recorded"), (False, "8 to 10 paths")):
        group = [rows for k, rows in found if (k >= 28) == deep]
        table(f"{len(group)} workloads, at most {what}", group)


if __name__ == "__main__":
    main()
