"""Helpers of the page on differences, and its sections on one arm.

Estimates of c, votes, K*, pilots, the reasoning model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from keff.paper import claims
from keff.records import number, percent

Numbers = dict[str, Any]


def section(title: str, text: str) -> str:
    """Return a Markdown section."""
    return f"## {title}\n\n{text}\n"


def listed(title: str, text: str, lines: Iterable[str]) -> str:
    """Return a Markdown section of a text and a list."""
    return section(title, "\n\n".join(part for part in (text, "\n".join(f"- {x}" for x in lines)) if part))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, numeric but for its first column."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def beside_print(numbers: Numbers, where: str, rows: Iterable[tuple[str, str, str]]) -> str:
    """Return a table of our values beside the paper's printed ones."""
    known = bool(numbers["checks"]["printed_numbers"])
    header = ("", "paper", "here") if known else ("", "here")
    lines = (
        (label, claims.printed(where, name) or "–", value) if known else (label, value)
        for label, name, value in rows
    )
    return table(header, lines)


def points(lo: float | None, hi: float | None) -> str:
    """Return an interval of shares in percentage points, as text."""
    return "–" if lo is None or hi is None else f"[{100 * lo:+.1f}, {100 * hi:+.1f}] points"


def span(values: Sequence[float], form: str) -> str:
    """Return a range as text; one number where both ends read the same."""
    low, high = f"{min(values):{form}}", f"{max(values):{form}}"
    return low if low == high else f"{low} to {high}"


TITLE = "c: mean Pearson, Eq. 3, and without bias"


def estimators(numbers: Numbers) -> str | None:
    """Return the section on mean Pearson, Eq. 3 and the bias-corrected c."""
    rows = [row for row in numbers["tables"].get("table1", []) if row["k"] > 1]
    gaps = _gaps(rows, "c")
    if not gaps:
        return None
    corrections = _gaps(rows, "c_corrected")
    text = (
        "The tables use the mean Pearson correlation over path columns; Eq. 3 pools p over columns. Pearson "
        "drops columns that are constant, which is frequent for extreme accuracies in small pilots. The "
        "corrected value is the one-way analysis-of-variance estimate. On Table 1, Pearson minus Eq. 3 is "
        f"{span(gaps, '+.4f')}"
    )
    if not corrections:
        return section(TITLE, f"{text}.")
    text += f", and the corrected value minus Eq. 3 is {span(corrections, '+.4f')}."
    if min(corrections) > 0:
        text += (
            " The latter is the bias that Eq. 3 has at even odds, -(1-c)(1+(K-1)c)/(nK), taken out; towards "
            "0% and 100% its bias is several times that (`keff.stats.voting.correlation`), and "
            "column *c, second order* has it out."
        )
    if max(map(abs, gaps)) > max(map(abs, corrections)):
        text += " The gap to Pearson is larger than that: it has another cause, such as constant columns."
    return section(TITLE, text)


def subsets(numbers: Numbers) -> str | None:
    """Return the section on retention at K*: by first paths, and over all subsets."""
    rows = numbers["tables"].get("table4", [])
    if not rows:
        return None
    lines = [
        f"{row['task']}, {row['model']}: {percent(row['retained'])} from the first paths, "
        f"{percent(row['average_retained'])} over all subsets; MV@K* minus MV of all paths is "
        f"{points(row['gap_lo'], row['gap_hi'])} from the first paths, "
        f"{points(row['average_gap_lo'], row['average_gap_hi'])} over all subsets"
        for row in rows
    ]
    return listed(
        "MV@K from the first K paths, or over all subsets",
        "The paper votes over the first K paths. Any other K of them are as good, and the average over all "
        "does not hang on one choice, so it varies less or as much. A retention above 100% from the first "
        f"paths can be that choice alone. {_even(rows)}Both intervals resample instances.",
        lines,
    )


def _even(rows: Sequence[Numbers]) -> str:
    """Return a sentence on even K*: the last path adds nothing to a majority vote."""
    even = sum(row["k_star"] % 2 == 0 for row in rows)
    return (
        "With half credit at ties MV(2m) = MV(2m-1) over all subsets: the last path of "
        f"{'all' if even == len(rows) else f'{even} of the {len(rows)}'} K* here, which are even, buys a "
        "majority vote nothing (a plurality it may). "
        if even
        else ""
    )


def plurality(numbers: Numbers) -> str | None:
    """Return the section on binary majority against plurality of answers."""
    rows = [row for row in numbers["tables"].get("table4", []) if row["plurality"] is not None]
    if not rows:
        return None
    lines = [
        f"{row['task']}, {row['model']}: binary majority {row['average']:.1%}, plurality "
        f"{row['plurality']:.1%} with all paths; at K* = {row['k_star']}: {percent(row['average_star'])} and "
        f"{percent(row['plurality_star'])}"
        for row in rows
    ]
    return listed(
        "Binary majority vote, and the plurality that is deployed",
        "The paper scores a binary vote on correctness: an instance counts when more than half of its paths "
        "are right. A deployed vote returns the most frequent answer, which needs no majority: where wrong "
        "answers differ, it can be right with fewer right paths, and go on gaining after the majority has "
        "stopped. Both are averages over all subsets of K* paths here, so the majority is not MV@K* of "
        "Table 4, which takes the first K* paths.",
        lines,
    )


def reasoning(numbers: Numbers) -> str | None:
    """Return the section on the reasoning model, beside the paper's numbers."""
    head = numbers["headline"]
    heads = head.get("reasoning_models") or [head.get("reasoning")]
    texts = [_reasoning(numbers, each, several=len(heads) > 1) for each in heads if each]
    return "\n".join(texts) or None


def _reasoning(numbers: Numbers, head: Numbers, *, several: bool) -> str:
    paper = (claims.printed("reasoning", name) for name in ("gap_lo", "gap_hi"))
    printed = " (paper: {} to {})".format(*paper) if numbers["checks"]["printed_numbers"] else ""
    gap, average = (points(head[f"{name}gap_lo"], head[f"{name}gap_hi"]) for name in ("", "average_"))
    rows = [
        ("accuracy of one path", "p", percent(head["p"])),
        ("paths cut at the token limit", "truncated", percent(head["truncated"])),
        ("c of the first 4 paths", "c_pilot", number(head["c_pilot"])),
        ("c of all paths", "c", number(head["c"])),
        ("the same, corrected, first 4 paths", "", number(head["c_corrected"])),
        ("ceiling 1/c", "ceiling", number(head["ceiling"])),
        ("K_eff of all paths", "k_eff", number(head["k_eff"])),
        ("K*", "k_star", number(head["k_star"], "d")),
        ("K* at the lower limit of c", "", number(head["k_star_conservative"], "d")),
        ("retained at K*, first paths", "retained", percent(head["retained"])),
        ("retained at K*, all subsets", "", percent(head["average_retained"])),
        ("net cost", "net_cost", percent(head["net_cost"], 0)),
    ]
    return section(
        f"The reasoning model: {head['model']}, {head['task']}, {head['arm']}"
        if several
        else "The reasoning model",
        "Our rows have no number of the paper. Cut paths count as wrong in both, as the paper has it. Where "
        "nearly all paths are right, c rests on the few instances that are not, so c and K* of the pilot "
        f"are loose, and so is the vote. MV@K* minus MV of all paths is {gap} from the first "
        f"paths{printed}, and {average} over all subsets.\n\n" + beside_print(numbers, "reasoning", rows),
    )


def _gaps(rows: Sequence[Numbers], name: str) -> list[float]:
    return [row[name] - row["c_eq3"] for row in rows if row[name] is not None and row["c_eq3"] is not None]
