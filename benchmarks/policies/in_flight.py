"""Paths in flight on recorded generations, against 8 in parallel with a full vote: kept, tokens, time.

python -m benchmarks.policies.in_flight [--orders N] [--every M]

Records that count tokens stand for seconds: time is in tokens of the critical path, and tokens of a cancelled
path count up to its cancellation. No choice is made on the records, so none is left out. ``whole`` are the
tokens where a cancelled path is billed to its end. The exact rule is checked to give the full vote's answer
on every order. Then short answers are made wrong: answers of every question are exchanged so that its
shortest paths are the wrong ones, which is what a lead has to protect against.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.places import RECORDED
from keff.analysis.walks import Walks, run
from keff.policy import parse_policy
from keff.reading.open import Opening, open_record
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.draws import Draws, permute_paths

CAP = 8
EXACT = f"curtailed:cap={CAP},in_flight={CAP},order=arrival"
SPECS = (
    EXACT,
    *(
        f"lead_k:{lead},cap={CAP},in_flight={width},order={order}"
        for width in (8, 6, 4, 2)
        for lead in (3, 2)
        for order in ("arrival", "launch")
    ),
    f"lead_k:2,cap={CAP}",
    f"lead_k:3,cap={CAP},wave=3+5",
)


def records(every: int) -> Iterator[Votes]:
    """Yield the recorded workloads that count tokens and have gold answers."""
    for file in sorted(RECORDED.glob("boinf_*.jsonl"))[::every]:
        votes = open_record(file, Opening()).ballot.votes
        if votes.correct is not None and votes.tokens is not None:
            yield votes


def short_are_wrong(votes: Votes) -> Votes:
    """Return the same answers and lengths, but the shortest paths of a question hold its wrong answers."""
    assert votes.correct is not None and votes.tokens is not None
    by_right = votes.correct.argsort(axis=1, kind="stable")
    answers = np.take_along_axis(votes.answered(), by_right, axis=1)
    correct = np.take_along_axis(votes.correct, by_right, axis=1)
    return replace(votes, answers=answers, correct=correct, tokens=np.sort(votes.tokens, axis=1))


def figures(walks: Walks, draws: Draws, whole: Walks) -> list[float]:
    """Return shares of the full vote's: accuracy, tokens, mean time, median, p95, tokens billed whole."""
    assert draws.tokens is not None and draws.tallies.credit is not None
    assert walks.credit is not None and walks.wait is not None
    longest = draws.tokens.max(axis=2)

    def tokens(each: Walks) -> float:
        ran = np.arange(CAP) < each.stop[..., None] if each.ran is None else each.ran
        return float((draws.tokens * ran).sum() / draws.tokens.sum())  # type: ignore[operator, union-attr]

    times = [f(walks.wait) / f(longest) for f in (np.mean, np.median, lambda t: np.quantile(t, 0.95))]
    kept = walks.credit.mean() / draws.tallies.credit[..., CAP].mean()
    return [float(kept), tokens(walks), *map(float, times), tokens(whole)]


def measured(votes: Votes, orders: int) -> tuple[FloatArray, FloatArray]:
    """Return the figures of every rule [rules, 6], and what it keeps where the short are wrong [rules]."""
    rng = np.random.default_rng(1)
    draws = permute_paths(replace(votes, seconds=votes.tokens), CAP, max(orders // votes.n, 10), rng)
    exact = run(parse_policy(EXACT), draws)
    assert (exact.answer == draws.tallies.leader[..., CAP]).all(), "the exact rule gave another answer"
    rules = [parse_policy(spec) for spec in SPECS]
    rows = [figures(run(rule, draws), draws, run(rule, draws, whole=True)) for rule in rules]
    wrong = short_are_wrong(votes)
    other = permute_paths(replace(wrong, seconds=wrong.tokens), CAP, max(orders // votes.n, 10), rng)
    assert other.tallies.credit is not None
    full = other.tallies.credit[..., CAP].mean()
    kept = [
        float(walks.credit.mean() / full) for rule in rules if (walks := run(rule, other)).credit is not None
    ]
    return np.array(rows), np.array(kept)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--orders", type=int, default=4000)
    parser.add_argument("--every", type=int, default=1)
    asked = parser.parse_args()
    found = [measured(votes, asked.orders) for votes in records(asked.every)]
    rows, wrong = np.stack([rows for rows, _ in found]), np.stack([kept for _, kept in found])
    print(f"{len(found)} records; relative to {CAP} in parallel with a full vote\n")
    print(
        "| rule | kept % | worst % | tokens | mean time | p50 | p95 | whole | short wrong, kept % | worst % |"
    )
    print("|---|" + "--:|" * 9)
    for place, spec in enumerate(SPECS):
        kept, tokens, mean, median, high, whole = rows[:, place].mean(axis=0)
        least = f"{rows[:, place, 0].min():.1%}"
        print(
            f"| `{spec}` | {kept:.2%} | {least} | {tokens:.3f} | {mean:.2f} | {median:.2f} "
            f"| {high:.2f} | {whole:.3f} | {wrong[:, place].mean():.2%} | {wrong[:, place].min():.1%} |"
        )


if __name__ == "__main__":
    main()
