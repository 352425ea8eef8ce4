"""The page that says where the paper's way and ours differ on these records, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Numbers = dict[str, Any]


def differences(numbers: Numbers) -> str:
    """Return the page in Markdown from the contents of numbers.json."""
    parts = ["# The paper's way and ours\n", _checks(numbers)]
    sections: tuple[Callable[[Numbers], str | None], ...] = (
        _estimators,
        _subsets,
        _plurality,
        _conservative,
        _pilot,
        _intervals,
        _weights,
        _oracle,
        _block,
        _phi,
    )
    parts += [text for text in (section(numbers) for section in sections) if text]
    parts.append(_list("Files that are missing", numbers["missing"]))
    parts.append(_list("What is wrong with the files", numbers["problems"]))
    return "\n".join(part for part in parts if part)


def _checks(numbers: Numbers) -> str:
    found = numbers["checks"]
    if not found["printed_numbers"]:
        return ""
    text = (
        f"{found['agree']} of the {found['printed_numbers']} printed numbers that these records allow to be "
        "recomputed agree within their last digit.\n"
    )
    if not found["differ"]:
        return text
    rows = [
        f"| {one['table']} | {one['row']} | {one['column']} | {one['printed']} | {_found(one)} |"
        for one in found["differ"][:40]
    ]
    more = len(found["differ"]) - len(rows)
    rest = f"\n{more} more are in numbers.json.\n" if more > 0 else ""
    head = "| table | row | column | printed | recomputed |\n| --- | --- | --- | ---: | ---: |\n"
    return (
        f"{text}\n{head}"
        + "\n".join(rows)
        + f"\n{rest}\nTable 10 and the intervals rest on random draws, so their last digits move.\n"
    )


def _found(one: Numbers) -> str:
    if one["found"] is None:
        return "–"
    return f"{one['found']:.2%}" if one["printed"].endswith("%") else f"{one['found']:.4g}"


def _estimators(numbers: Numbers) -> str | None:
    rows = [row for row in numbers["tables"].get("table1", []) if row["k"] > 1]
    if not rows:
        return None
    gaps = [abs(row["c"] - row["c_eq3"]) for row in rows if row["c"] is not None and row["c_eq3"] is not None]
    if not gaps:
        return None
    return _section(
        "c: mean Pearson, Eq. 3, and without bias",
        f"The tables use the mean Pearson correlation over path columns; Eq. 3 pools p over columns. On Table 1 "
        f"they differ by at most {max(gaps):.4f}. Pearson drops columns that are constant, which is frequent "
        "for extreme accuracies in small pilots. Eq. 3 is biased downwards by about (1-c)(1+(K-1)c)/(nK). The "
        "corrected value is the one-way analysis-of-variance estimate, which removes that. Table 1 lists all three.",
    )


def _subsets(numbers: Numbers) -> str | None:
    rows = numbers["tables"].get("table4", [])
    if not rows:
        return None
    lines = [
        f"- {row['task']}, {row['model']}: {_percent(row['retained'])} from the first paths, {_percent(row['average_retained'])} "
        f"over all subsets; MV@K* minus MV of all paths is {_points(row['gap_lo'], row['gap_hi'])} from the first paths, "
        f"{_points(row['average_gap_lo'], row['average_gap_hi'])} over all subsets"
        for row in rows
    ]
    return _section(
        "MV@K from the first K paths, or over all subsets",
        "The paper votes over the first K paths. Any other K of them are as good, and the average over "
        "all has a smaller variance: for MV@K - MV@32 on its records by a factor of two to four. Retention above 100% is mostly "
        "that noise. Even K buy nothing that the odd K before them does not buy when ties count one half.\n\n"
        + "\n".join(lines),
    )


def _plurality(numbers: Numbers) -> str | None:
    rows = [row for row in numbers["tables"].get("table4", []) if row["plurality"] is not None]
    if not rows:
        return None
    lines = [
        f"- {row['task']}, {row['model']}: binary majority {row['average']:.1%}, plurality {row['plurality']:.1%} with "
        f"all paths; at K* = {row['k_star']}: {row['average_star']:.1%} and {row['plurality_star']:.1%}"
        for row in rows
    ]
    return _section(
        "Binary majority vote, and the plurality that is deployed",
        "The paper scores a binary vote on correctness: an instance counts when more than half of its paths are "
        "right. A deployed vote returns the most frequent answer, which needs no majority, so it is at least as "
        "often right when wrong answers differ, and it saturates later.\n\n" + "\n".join(lines),
    )


def _conservative(numbers: Numbers) -> str | None:
    rows = numbers["tables"].get("table4", [])
    if not rows:
        return None
    lines = [
        f"- {row['task']}, {row['model']}: {row['k_star']}, conservative {row['k_star_conservative']}"
        for row in rows
    ]
    return _section(
        "K* from a point estimate, or from its lower limit",
        "K* falls with c, so an overestimated c draws too few paths. The conservative K* uses the one-sided 90% "
        "lower limit of c. K* without a cap, as in the paper's tables, can also explode for small c; the conservative one is capped at the paths recorded.\n\n"
        + "\n".join(lines),
    )


def _pilot(numbers: Numbers) -> str | None:
    rows = [row for row in numbers["tables"].get("table10", []) if row["single_seed_c_std"] is not None]
    if not rows:
        return None
    lines = [
        f"- {row['model']}, n = {row['n']}: {row['c_std']:.3f} with all seeds, {row['single_seed_c_std']:.3f} with one"
        for row in rows
        if row["n"] in (50, 100) and row["c_std"] is not None
    ]
    return _section(
        "What a pilot of n instances can see",
        "The paper's resamples keep all seed replicates of an instance, up to 20 paths each. A real pilot draws 4 "
        "paths of each instance once; its standard deviation of c is larger.\n\n" + "\n".join(lines),
    )


def _intervals(numbers: Numbers) -> str | None:
    found = numbers["headline"].get("precision")
    if not found:
        return None
    rows, paired = found["rows"], found["paired"]
    text = (
        "The paper resamples rows (instance x seed) of each arm on its own. Rows of one instance are not "
        "independent, and both arms share their instances. Resampling instances in both arms together respects "
        "both. The former makes intervals too narrow, the pairing makes them narrower again.\n\n"
        f"- rows: {rows['exclude_zero']} of {rows['cells']} intervals exclude zero, median width {_pp(rows)}\n"
        f"- paired instances, corrected c: {paired['exclude_zero']} of {paired['cells']}, median width {_pp(paired)}; "
        f"{paired['withheld']} are withheld because an arm is too near 0% or 100%"
    )
    return _section("Intervals of the change of rho", text)


def _weights(numbers: Numbers) -> str | None:
    found = numbers["headline"].get("weighted_voting")
    if not found:
        return None
    lines = [
        f"- {label}: in-sample {side['gain']:+.1%}, cross-fitted {side['gain_cross_fitted']:+.1%}, "
        f"best single slot {side['best_slot_gain']:+.1%} ({side['cells']} cells)"
        for label, side in (
            ("slot CV above 0.225", found["high_cv"]),
            ("slot CV at most 0.225", found["low_cv"]),
        )
        if side["gain"] is not None
    ]
    return _section(
        "Weighted votes: in-sample, cross-fitted, and the best slot",
        "Accuracy weights learned on the instances that they are judged on look better than they are. The "
        "cross-fitted gain uses weights from other instances. Where slots differ much, weighting mostly finds the "
        "best slot, so the best single slot (also cross-fitted) must stand beside it.\n\n" + "\n".join(lines),
    )


def _oracle(numbers: Numbers) -> str | None:
    found = numbers["headline"].get("oracle")
    if not found or found["mean_gain"] is None:
        return None
    return _section(
        "The oracle bound under one prompt",
        f"Over {found['cells']} self-consistency cells with slot CV up to 0.24 the in-sample oracle gains at most "
        f"{found['largest_gain']:+.2%} and {found['mean_gain']:+.2%} on average. Slots that do not differ at all "
        f"would give {found['mean_expected_of_equal_slots']:+.2%} on average, because the weights decide ties in "
        f"favour of the instances that they were learned from. Cross-fitted, the mean gain is "
        f"{found['mean_gain_cross_fitted']:+.2%}.",
    )


def _block(numbers: Numbers) -> str | None:
    found = numbers["headline"].get("block")
    if not found or found["mean"] is None:
        return None
    pooled = found["mean_with_pooled_c"]
    return _section(
        "K_eff block over K_eff vote",
        f"Mean ratio {found['mean']:.3f} (std {found['std']:.3f}, largest {found['largest']:.2f}) over "
        f"{found['cells']} cells, with the mean Pearson correlation in K_eff vote. With Eq. 3 instead the two are "
        f"one and the same number for every matrix: here the mean ratio is {pooled:.6f}. The ratio measures how "
        "Pearson and Eq. 3 differ for unequal slots, not diversity that the formula misses.",
    )


def _phi(numbers: Numbers) -> str | None:
    rows = [row for row in numbers["tables"].get("table3", []) if row["phi_ratio_change"] is not None]
    if not rows:
        return None
    lines = [
        f"- {row['benchmark']}: Δρ {row['delta_rho']:+.0%}, relative to the largest possible {row['phi_ratio_change']:+.0%}"
        for row in rows
    ]
    return _section(
        "Decorrelation, or unequal templates",
        "Two votes of unequal accuracy cannot correlate fully. When templates differ in accuracy (or break the answer "
        "format), rho falls without any independence. Divided by the largest value that the accuracies allow, the "
        "change is what is left.\n\n" + "\n".join(lines),
    )


def _list(title: str, lines: list[str]) -> str:
    return _section(title, "\n".join(f"- {line}" for line in lines)) if lines else ""


def _section(title: str, text: str) -> str:
    return f"## {title}\n\n{text}\n"


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1%}"


def _points(lo: float | None, hi: float | None) -> str:
    return "unknown" if lo is None or hi is None else f"[{100 * lo:+.1f}, {100 * hi:+.1f}] points"


def _pp(found: Numbers) -> str:
    if found["median_width"] is None:
        return "unknown"
    low, high = found["iqr"]
    return f"{100 * found['median_width']:.0f} points (quartiles {100 * low:.0f} to {100 * high:.0f})"
