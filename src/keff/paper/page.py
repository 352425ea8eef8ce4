"""Markdown page on the differences between the paper's estimates and ours, on two arms.

Its sections on two arms: tests, intervals, weighted votes, and what a fall of rho means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from keff.paper import sections
from keff.paper.sections import Numbers, beside_print, listed, section, span, table
from keff.records import number, percent

# How instances are resampled, and how the paper resamples.
TOGETHER, BY_ROWS = "instances of both arms together", "rows of each arm alone"


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
        f"A one-sided Mann-Whitney test of {test['n_qa']} QA cells against {test['n_math']} Math cells. It "
        "takes cells for independent, and they are not: both sides have the same models, and cells of one "
        "benchmark share their instances, so p is not the chance that it claims to be. It also takes the "
        f"change of a cell for exact: the last row repeats the test on {test['draws']} bootstrap draws of "
        f"all cells ({_resampled(numbers)}).\n\n" + beside_print(numbers, "mann_whitney", rows),
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
            f"Figure 3 has {line['n']} points, one a benchmark: answer diversity under one prompt, and the "
            "change of rho. So few points leave r wide open. They are not independent either, for all have "
            "the same models, and both coordinates come from the same paths under one prompt.\n\n"
            + beside_print(numbers, "predictor", rows)
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
        "rho": f"mean Pearson (the paper's), {_resampled(numbers)}",
        "corrected": f"corrected c, {TOGETHER}",
    }
    rows = [
        (label, *_widths(precision[name]), str(precision[name]["withheld"])) for name, label in labels.items()
    ]
    text = (
        "The paper resamples rows of each arm on its own, which `keff reproduce` alone does. Rows are "
        "instances under a seed: those of one instance are not independent, and both arms share their "
        "instances. Resampling instances in both arms together respects both. Where rows of one instance "
        "agree, they tell less than as many instances, which widens; what both arms share cancels, which "
        "narrows. No interval over instances is given where an arm is too near 0% or 100%."
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
    return listed(
        "Weighted votes: in-sample, cross-fitted, and the best slot",
        "Accuracy weights learned on the instances that they are judged on look better than they are. The "
        "cross-fitted gain uses weights from other instances. Where slots differ much, one slot alone can "
        "do as well as the weighted vote or better, so the best single slot (also cross-fitted) must stand "
        "beside it.",
        lines,
    )


def oracle(numbers: Numbers) -> str | None:
    """Return the section on the oracle gain under one prompt, beside that of equal slots."""
    gains = numbers["headline"].get("oracle")
    if not gains or gains["mean_gain"] is None:
        return None
    return section(
        "The oracle bound under one prompt",
        f"Over {gains['cells']} self-consistency cells with slot CV up to 0.24 the in-sample oracle gains "
        f"at most {gains['largest_gain']:+.2%} and {gains['mean_gain']:+.2%} on average. Slots that do not "
        f"differ at all would give {gains['mean_expected_of_equal_slots']:+.2%} on average, because the "
        "weights decide ties in favour of the instances that they were learned from. Cross-fitted, the "
        f"mean gain is {gains['mean_gain_cross_fitted']:+.2%}. The paper states the bound for any weights, "
        "those by confidence included. What is measured are weights of slots, one number a column: "
        "weights that differ from path to path are not among them, and not bounded by it.",
    )


def block(numbers: Numbers) -> str | None:
    """Return the section on K_eff block over K_eff vote, with both estimators of c."""
    ratios = numbers["headline"].get("block")
    if not ratios or ratios["mean"] is None:
        return None
    return section(
        "K_eff block over K_eff vote",
        f"Mean ratio {ratios['mean']:.3f} (std {ratios['std']:.3f}, largest {ratios['largest']:.2f}) over "
        f"{ratios['cells']} cells, with the mean Pearson correlation in K_eff vote. With Eq. 3 instead the "
        "two are one and the same number for every matrix: the ratio measures how Pearson and Eq. 3 differ "
        "for unequal slots, not diversity that the formula misses.",
    )


def _resampled(numbers: Numbers) -> str:
    return TOGETHER if any("against" in cell for cell in numbers["cells"]) else BY_ROWS


def _widths(step: Numbers) -> tuple[str, str, str]:
    known = f"{step['exclude_zero']} of {step['cells']}"
    if step["median_width"] is None:
        return known, "–", "–"
    low_high = span([100 * end for end in step["iqr"]], ".0f")
    return known, f"{100 * step['median_width']:.0f} points", low_high


Section = Callable[[Numbers], str | None]

OF_ARMS: tuple[Section, ...] = (
    sections.estimators,
    sections.subsets,
    sections.plurality,
    sections.reasoning,
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
    parts += [listed(title, "", numbers[name]) for title, name in lists.items() if numbers[name]]
    return "\n".join(part for part in parts if part)


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
        f"{checks['agree']} of the {checks['printed_numbers']} printed numbers that these records allow to "
        "be recomputed agree within their last digit.\n"
    )
    if not checks["differ"]:
        return text
    names = ("table", "row", "column", "printed")
    rows = [(*(check[name] for name in names), _found(check)) for check in checks["differ"][:40]]
    more = len(checks["differ"]) - len(rows)
    rest = f"\n{more} more are in numbers.json.\n" if more > 0 else ""
    moves = "Table 10 and the intervals rest on random draws, so their last digits move."
    return f"{text}\n{table((*names, 'recomputed'), rows)}\n{rest}\n{moves}\n"


def _found(check: Numbers) -> str:
    if check["found"] is None:
        return "–"
    return f"{check['found']:.2%}" if check["printed"].endswith("%") else f"{check['found']:.4g}"
