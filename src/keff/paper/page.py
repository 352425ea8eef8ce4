"""Markdown page on the differences between the paper's estimates and ours.

Sections on one arm: estimates of c, votes, K*, pilots, the reasoning model. Then those on two arms: tests,
intervals, weighted votes, and what a fall of rho means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from keff.console import harmless
from keff.paper import claims
from keff.records import number, percent

Numbers = dict[str, Any]

# The share of right paths from which few instances tell of c.
NEARLY_ALL = 0.9


def section(title: str, text: str) -> str:
    """Return a Markdown section."""
    return f"## {title}\n\n{text}\n"


def list_section(title: str, text: str, lines: Iterable[str]) -> str:
    """Return a Markdown section of a text and a list."""
    return section(title, "\n\n".join(part for part in (text, "\n".join(f"- {x}" for x in lines)) if part))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, numeric but for its first column."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def table_beside_print(numbers: Numbers, where: str, rows: Iterable[tuple[str, str, str]]) -> str:
    """Return a table of our values beside the paper's printed ones."""
    known = bool(numbers["checks"]["printed_numbers"])
    header = ("", "paper", "here") if known else ("", "here")
    lines = (
        (label, claims.printed_number(where, name) or "–", value) if known else (label, value)
        for label, name, value in rows
    )
    return table(header, lines)


def points(lo: float | None, hi: float | None) -> str:
    """Return an interval of shares in percentage points, as text."""
    return "–" if lo is None or hi is None else f"[{100 * lo:+z.1f}, {100 * hi:+z.1f}] points"


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
        "There are three estimates of c. The paper's tables use the mean Pearson correlation of two path "
        "columns. Eq. 3 pools p over columns. The corrected value is the one-way analysis-of-variance "
        "estimate. Pearson leaves out constant columns, which are frequent in small pilots with nearly all "
        f"paths right or wrong. On Table 1, Pearson minus Eq. 3 is {span(gaps, '+.4f')}"
    )
    if not corrections:
        return section(TITLE, f"{text}.")
    text += f", and the corrected value minus Eq. 3 is {span(corrections, '+.4f')}."
    if min(corrections) > 0:
        text += (
            " The correction removes the bias that Eq. 3 has at even odds, -(1-c)(1+(K-1)c)/(nK). Towards 0% "
            "and 100% the bias is several times larger; the column *c, second order* removes that, too "
            "(`keff.stats.voting.correlation`)."
        )
    if max(map(abs, gaps)) > max(map(abs, corrections)):
        text += " The gap to Pearson is larger, so it has another cause, such as constant columns."
    return section(TITLE, text)


def subsets(numbers: Numbers) -> str | None:
    """Return the section on retention at K*: by first paths, and over all subsets."""
    # Where K* is all paths, or more than were drawn, there is nothing to compare.
    rows = [
        row
        for row in numbers["tables"].get("table4", [])
        if row["retained"] is not None and row["k_star"] < row.get("paths", math.inf)
    ]
    if not rows:
        return None
    above = (
        "If the first paths retain more than 100%, that can be luck of the choice. "
        if any(row["retained"] > 1 for row in rows)
        else ""
    )
    lines = [
        f"{row['task']}, {row['model']}: {percent(row['retained'])} from the first paths, "
        f"{percent(row['average_retained'])} over all subsets. MV@K* minus MV of all paths is "
        f"{points(row['gap_lo'], row['gap_hi'])} from the first paths, "
        f"{points(row['average_gap_lo'], row['average_gap_hi'])} over all subsets"
        for row in rows
    ]
    return list_section(
        "MV@K from the first K paths, or over all subsets",
        "The paper votes over the first K paths. Any other K paths would do as well, so the average over all "
        f"subsets is the steadier figure. {above}{_even(rows)}Both intervals resample instances.",
        lines,
    )


def _even(rows: Sequence[Numbers]) -> str:
    """Return a sentence on even K*: the last path adds nothing to a majority vote."""
    even = sum(row["k_star"] % 2 == 0 for row in rows)
    return (
        f"{'Every' if even == len(rows) else f'{even} of the {len(rows)}'} K* here "
        f"{'is' if even in (1, len(rows)) else 'are'} even. Over all subsets MV(2m) = MV(2m-1), with half "
        "credit at ties, so the last path adds nothing to a majority vote. It may add to a plurality. "
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
        f"{row['plurality']:.1%} with all paths"
        + (
            ""
            if row["plurality_star"] is None
            else f"; at K* = {row['k_star']}: {percent(row['average_star'])} and "
            f"{percent(row['plurality_star'])}"
        )
        for row in rows
    ]
    return list_section(
        "The majority that the paper scores, and the plurality that you deploy",
        "The paper counts an instance as right if more than half of its paths are right. You deploy the most "
        "frequent answer, which needs no majority. If wrong answers differ, it can be right with fewer right "
        "paths, and it can gain after the majority has stopped gaining. Both figures here are averages over "
        "all subsets of K* paths. MV@K* of Table 4 differs, because it takes the first K* paths.",
        lines,
    )


def reasoning(numbers: Numbers) -> str | None:
    """Return the section on the reasoning model, beside the paper's numbers."""
    head = numbers["headline"]
    heads = head.get("reasoning_models") or [head.get("reasoning")]
    texts = [_reasoning(numbers, each, several=len(heads) > 1) for each in heads if each]
    return "\n".join(texts) or None


def _reasoning(numbers: Numbers, head: Numbers, *, several: bool) -> str:
    paper = (claims.printed_number("reasoning", name) for name in ("gap_lo", "gap_hi"))
    printed = " (paper: {} to {})".format(*paper) if numbers["checks"]["printed_numbers"] else ""
    gap, average = (points(head[f"{name}gap_lo"], head[f"{name}gap_hi"]) for name in ("", "average_"))
    ours = "The rows without a number of the paper are ours. " if printed else ""
    cut = "Paths cut at the token limit count as wrong, as in the paper. " if head["truncated"] else ""
    few = (
        "Nearly all paths are right, so c and K* rest on few instances and are rough. "
        if head["p"] > NEARLY_ALL
        else ""
    )
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
        f"{ours}{cut}{few}MV@K* minus MV of all paths is {gap} from the first "
        f"paths{printed}, and {average} over all subsets.\n\n"
        + table_beside_print(numbers, "reasoning", rows),
    )


def _gaps(rows: Sequence[Numbers], name: str) -> list[float]:
    return [row[name] - row["c_eq3"] for row in rows if row[name] is not None and row["c_eq3"] is not None]


def mann_whitney(numbers: Numbers) -> str | None:
    """Return the section on the test of QA against Math cells."""
    test = numbers["headline"].get("mann_whitney")
    if not test:
        return None
    rows = [
        ("p, normal approximation", "p_normal", number(test["p_normal"], ".2g")),
        ("p, exact", "", number(test["p"], ".2g")),
        ("draws with p below 0.001", "", percent(test["share_below_0.001"], 0)),
    ]
    return section(
        "Whether rho falls more on QA than on Math",
        f"This is a one-sided Mann-Whitney test of {test['n_qa']} QA cells against {test['n_math']} Math "
        "cells. Do not take its p at face value. The test assumes independent cells, but both sides have the "
        "same models, and cells of one benchmark share their instances. It also takes the change of each "
        f"cell as exact. The last row therefore repeats it on {test['draws']} bootstrap draws of all cells "
        f"({_resampling(numbers)}).\n\n" + table_beside_print(numbers, "mann_whitney", rows),
    )


def predictor(numbers: Numbers) -> str | None:
    """Return the section on Figure 3's correlation, and benchmarks left out."""
    line = numbers["headline"].get("predictor")
    left_out: dict[str, str] = numbers["headline"].get("not_in_figure3") or {}
    parts: list[str] = []
    if line:
        rows = [
            ("r", "r", number(line["r"])),
            ("p", "p", number(line["p"], ".2g")),
            ("95% interval of r (Fisher)", "", f"[{number(line['r_lo'])}, {number(line['r_hi'])}]"),
        ]
        parts.append(
            f"Figure 3 has {line['n']} points, one for each benchmark: its answer diversity under one prompt "
            "against its change of rho. So few points say little about r. They are not independent either: "
            "all have the same models, and both coordinates use the same paths under one prompt.\n\n"
            + table_beside_print(numbers, "predictor", rows)
        )
    if left_out:
        parts.append(
            "Not in Figure 3: " + ", ".join(f"{name} ({why})" for name, why in left_out.items()) + "."
        )
    return section("Answer diversity as a predictor (Figure 3)", "\n\n".join(parts)) if parts else None


def intervals(numbers: Numbers) -> str | None:
    """Return the section on the widths of intervals of the change of rho."""
    precision = numbers["headline"].get("precision")
    if not precision:
        return None
    labels = {
        "rho": f"mean Pearson (the paper's), {_resampling(numbers)}",
        "corrected": "corrected c, instances of both arms together",
    }
    rows = [
        (label, *_widths(precision[name]), str(precision[name]["withheld"])) for name, label in labels.items()
    ]
    seeds = (
        "Its rows are instances under a seed. Several rows of one instance tell less than several "
        "instances, so an interval over instances is wider. "
        if max((cell.get("seeds", 2) for cell in numbers["cells"]), default=2) > 1
        else ""
    )
    text = (
        "The paper resamples the rows of each arm separately, as only `keff reproduce` does. "
        f"{seeds}keff resamples the instances of both arms together. What the arms share then cancels, so "
        "the interval is narrower. If an arm is too near 0% or 100%, keff gives no interval."
    )
    heads = ("estimator, and what is resampled", "exclude zero", "median width", "quartiles", "withheld")
    return section("Intervals of the change of rho", f"{text}\n\n{table(heads, rows)}")


def weights(numbers: Numbers) -> str | None:
    """Return the section on gains of weighted votes: in sample, cross-fitted, best slot."""
    gains = numbers["headline"].get("weighted_voting")
    if not gains:
        return None
    lines = [
        f"{label}: in-sample {side['gain']:+.1%}, cross-fitted {side['gain_cross_fitted']:+.1%}, "
        f"best single slot {side['best_slot_gain']:+.1%} ({side['cells']} cells)"
        for label, side in (
            ("slot CV above 0.225", gains["high_cv"]),
            ("slot CV at most 0.225", gains["low_cv"]),
        )
        if side["gain"] is not None
    ]
    return list_section(
        "Weighted votes: in-sample, cross-fitted, and the best slot",
        "Weights look better than they are on the instances that they were learned from. The cross-fitted "
        "gain uses weights learned on other instances. If slots differ much, the best slot alone can match "
        "or beat the weighted vote, so its gain is here too, also cross-fitted.",
        lines,
    )


def oracle(numbers: Numbers) -> str | None:
    """Return the section on the oracle gain under one prompt, beside that of equal slots."""
    gains = numbers["headline"].get("oracle")
    if not gains or gains["mean_gain"] is None:
        return None
    return section(
        "The oracle bound under one prompt",
        f"In {gains['cells']} self-consistency cells with slot CV up to 0.24, the in-sample oracle gains "
        f"at most {gains['largest_gain']:+.2%}, and {gains['mean_gain']:+.2%} on average. Equal slots "
        f"would seem to gain {gains['mean_expected_of_equal_slots']:+.2%}, because the weights decide ties "
        "in favour of the instances that they were learned from. Cross-fitted, the mean gain is "
        f"{gains['mean_gain_cross_fitted']:+.2%}. The paper states the bound for any weights, also for those "
        "by confidence. But these are weights of slots, one number for each column. They say nothing about "
        "weights that differ from path to path.",
    )


def block(numbers: Numbers) -> str | None:
    """Return the section on K_eff block over K_eff vote, with both estimators of c."""
    ratios = numbers["headline"].get("block")
    if not ratios or ratios["mean"] is None:
        return None
    return section(
        "K_eff block over K_eff vote",
        f"The mean ratio is {ratios['mean']:.3f} (std {ratios['std']:.3f}, largest {ratios['largest']:.2f}) "
        f"in {ratios['cells']} cells, with the mean Pearson correlation in K_eff vote. With Eq. 3 the two "
        "are the same number for every matrix. So the ratio shows how Pearson and Eq. 3 differ for unequal "
        "slots, not diversity that the formula misses.",
    )


def _resampling(numbers: Numbers) -> str:
    """Return how instances are resampled: ours, or the paper's way."""
    if any("against" in cell for cell in numbers["cells"]):
        return "instances of both arms together"
    return "rows of each arm alone"


def _widths(step: Numbers) -> tuple[str, str, str]:
    known = f"{step['exclude_zero']} of {step['cells']}"
    if step["median_width"] is None:
        return known, "–", "–"
    low_high = span([100 * end for end in step["iqr"]], ".0f")
    return known, f"{100 * step['median_width']:.0f} points", low_high


Section = Callable[[Numbers], str | None]

OF_ARMS: tuple[Section, ...] = (
    estimators,
    subsets,
    plurality,
    reasoning,
)
OF_PAIRS: tuple[Section, ...] = (
    intervals,
    mann_whitney,
    predictor,
    weights,
    oracle,
    block,
)


def differences(numbers: Numbers) -> str:
    """Return the whole page, from the contents of numbers.json."""
    parts = ["# The paper's way and ours\n", _checks(numbers)]
    parts += [text for text in (make(numbers) for make in OF_ARMS) if text]
    for name, part in _comparisons(numbers):
        texts = [text for text in (make(part) for make in OF_PAIRS) if text]
        parts += [text.replace("\n", f": {name}\n", 1) for text in texts] if name else texts
    lists = {"Files that are missing": "missing", "What is wrong with the files": "problems"}
    parts += [list_section(title, "", numbers[name]) for title, name in lists.items() if numbers[name]]
    return harmless("\n".join(part for part in parts if part))


def _comparisons(numbers: Numbers) -> Iterator[tuple[str, Numbers]]:
    """Yield each comparison of arms with its headline and Table 3."""
    several: dict[str, Numbers] = numbers["headline"].get("comparisons") or {}
    if not several:
        yield "", numbers
    for name, headline in several.items():
        rows = [
            row for row in numbers["tables"]["table3"] if f"{row['arm']} against {row['against']}" == name
        ]
        yield name, numbers | {"headline": headline, "tables": {"table3": rows}}


def _checks(numbers: Numbers) -> str:
    checks = numbers["checks"]
    if not checks["printed_numbers"]:
        return ""
    text = (
        f"keff could recompute {checks['printed_numbers']} of the paper's printed numbers from these "
        f"records. {checks['agree']} of them agree to the last digit.\n"
    )
    if not checks["differ"]:
        return text
    names = ("table", "row", "column", "printed")
    rows = [(*(check[name] for name in names), _found(check)) for check in checks["differ"][:40]]
    more = len(checks["differ"]) - len(rows)
    rest = f"\n{more} more are in numbers.json.\n" if more > 0 else ""
    moves = "Table 10 and the intervals rest on random draws, so their last digits vary."
    return f"{text}\n{table((*names, 'recomputed'), rows)}\n{rest}\n{moves}\n"


def _found(check: Numbers) -> str:
    if check["found"] is None:
        return "–"
    return f"{check['found']:.2%}" if check["printed"].endswith("%") else f"{check['found']:.4g}"
