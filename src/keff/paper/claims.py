"""The paper's printed numbers (tables, text, reference file), to compare with reproduced ones."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from keff.paper import records
from keff.paper.records import ArmSample
from keff.paper.saturation import table1
from keff.records import Json, frozen
from keff.report.tables import Row
from keff.stats.models.betabinomial import majority_prefix

# The columns that name a row, those that are compared, and the rows.
PRINTED: dict[str, tuple[str, str]] = {
    "table1": (
        "k | agree c k_eff ceiling percent_of_ceiling p p_std tokens",
        """1 - - 1.0 - - 78.0% 2.5% 323
        4 0.868 0.604 1.42 1.66 86 79.0% 1.3% 1293
        8 0.866 0.593 1.55 1.69 92 79.2% 0.8% 2592
        16 0.862 0.579 1.65 1.73 96 79.4% 0.8% 5179
        32 0.864 0.586 1.67 1.71 98 79.2% 0.4% 10327""",
    ),
    "table2": (
        "model | c_pilot k_eff_4 k_eff_8 k_eff_16 k_eff_32 mv bb binomial",
        """Qwen-7B 0.60 1.42 1.55 1.65 1.67 81.9% 81.1% 100.0%
        Llama-8B 0.53 1.55 1.72 1.86 1.94 79.3% 77.8% 99.9%
        Mistral-7B 0.45 1.71 1.89 2.00 2.13 42.4% 41.3% 20.6%""",
    ),
    "table3": (
        "benchmark | n delta_rho delta_k_eff rho_sc rho_pt",
        """TriviaQA 5 -71.5% 2.1 0.68 0.19
        HotpotQA 5 -62.5% 2.0 0.55 0.17
        ARC-C 5 -48.7% 1.1 0.60 0.28
        MMLU 5 -34.6% 0.7 0.48 0.31
        HellaSwag 5 -36.0% 0.9 0.45 0.25
        WinoGrande 5 -36.7% 0.7 0.60 0.35
        DROP 2 -65.5% 2.0 0.37 0.13
        BoolQ 5 -32.0% 0.5 0.85 0.59
        MBPP 5 -20.8% 0.3 0.67 0.51
        CruxEval 5 -24.2% 0.3 0.73 0.55
        GSM8K 5 -29.4% 0.5 0.55 0.38
        MATH 5 -9.2% 0.2 0.60 0.55""",
    ),
    "table4": (
        "task model | c_pilot k_star mv_star mv retained net_cost",
        """GSM8K_(Math) Qwen-7B 0.60 6 81.6% 81.9% 100% 31%
        GSM8K_(Math) Llama-8B 0.53 8 78.1% 79.3% 98% 38%
        GSM8K_(Math) Mistral-7B 0.45 10 43.6% 42.4% 103% 44%
        HotpotQA_(QA) Llama-8B 0.61 6 50.2% 52.2% 96% 31%
        BoolQ_(NLU) Llama-8B 0.79 4 80.2% 80.3% 100% 25%""",
    ),
    "table8": (
        "domain | n mv_sc mv_pt delta delta_std",
        """QA 10 6.9% 6.5% -0.4% 1.8%
        Sci/MC 10 60.7% 59.3% -1.5% 5.4%
        Commonsense 10 63.6% 63.9% 0.3% 8.7%
        NLU 7 50.2% 52.5% 2.3% 2.1%
        Code 10 13.1% 9.3% -3.9% 11.2%
        Math 10 46.7% 45.4% -1.3% 3.8%""",
    ),
    "table9": (
        "k | mv bb_error binomial_error",
        """4 95.8% 0.8% 2.8%
        8 96.8% 1.2% 3.1%
        16 96.8% 1.3% 3.2%
        32 96.8% 1.7% 3.2%""",
    ),
    "table10": (
        "model n | c_mean c_std k_star_mean k_star_std",
        """Qwen-7B 25 0.571 0.122 7.9 6.77
        Qwen-7B 50 0.589 0.083 6.9 1.69
        Qwen-7B 100 0.596 0.055 6.6 1.02
        Qwen-7B 200 0.605 0.039 6.5 0.72
        Llama-8B 25 0.512 0.105 8.7 3.14
        Llama-8B 50 0.522 0.068 8.1 1.53
        Llama-8B 100 0.526 0.048 8.0 1.06
        Llama-8B 200 0.525 0.034 7.9 0.77
        Mistral-7B 25 0.437 0.090 10.6 3.10
        Mistral-7B 50 0.438 0.062 10.3 1.98
        Mistral-7B 100 0.447 0.044 9.9 1.30
        Mistral-7B 200 0.446 0.031 9.9 0.92""",
    ),
    "table11": (
        "model epsilon | k_star mv_star retained",
        """Qwen-7B 0.01 10 82.4% 101%
        Qwen-7B 0.025 6 81.6% 100%
        Qwen-7B 0.05 5 81.4% 99%
        Qwen-7B 0.1 3 79.8% 97%
        Llama-8B 0.01 13 78.8% 99%
        Llama-8B 0.025 8 78.1% 98%
        Llama-8B 0.05 5 76.8% 97%
        Llama-8B 0.1 4 76.7% 97%
        Mistral-7B 0.01 16 42.4% 100%
        Mistral-7B 0.025 10 43.6% 103%
        Mistral-7B 0.05 7 43.6% 103%
        Mistral-7B 0.1 5 41.6% 98%""",
    ),
}
# The numbers of the text, as ``where: name printed ...`` below the headline.
#
# ``cells`` is the headline itself.
HEADLINE = """cells: valid 57 reduced 55 mean_delta_rho -38% mean_delta_k_eff 0.9
range_delta_rho: 0 -81% 1 9%
mann_whitney: p_normal 0.00050
predictor: r -0.62 p 0.032
precision.rho: exclude_zero 43 median_width 24%
precision.rho.iqr: 0 18% 1 39%
weighted_voting: r 0.91
weighted_voting.high_cv: gain 16.7%
weighted_voting.low_cv: gain 1.3%
weighted_voting.low_accuracy: gain 14.5% mean_cv 0.656 share_high_cv 74%
weighted_voting.high_accuracy: gain 1.6% mean_cv 0.135 share_high_cv 14%
oracle: largest_gain 1.5%
block: cells 58 mean 1.16 std 0.30 largest 2.5
reasoning: truncated 5.4% p 92.9% c_pilot 0.33 c 0.38 ceiling 2.67 k_eff 2.53 k_star 14
reasoning: retained 99.8% net_cost 56%
reasoning: gap_lo -0.5% gap_hi 0.0%
mann_whitney: share_below_0.001 >99%
held_out: bb_error_least 3.3% bb_error_most 4.8% binomial_error_least 18% binomial_error_most 24%
adaptive_k: repaid_after_least 15 repaid_after_most 19 cost_at_1000_least 13.8% cost_at_1000_most 32.5%
adaptive_k: net_cost_least 25% net_cost_most 44% retained_least 96% retained_most 103% intervals_with_zero 5
domain_QA: delta_rho -67%
domain_Code: delta_rho -22%
range_choice: least -35% most -49%
range_math: least -9% most -29%
math_qwen32b: delta_rho -2.1% rho_lo -12% rho_hi 8%"""


# Half a unit of the last printed place, with room for binary rounding.
ROUNDING = 5e-7


@frozen
class Check:
    """One printed number beside the reproduced one.

    ``agrees`` within half a unit of the last printed digit.
    """

    table: str
    row: str
    column: str
    printed: str
    found: float
    agrees: bool


def check_headline(headline: Row) -> list[Check]:
    """Return checks of every printed number of the text that was reproduced."""
    checks: list[Check] = []
    for (where, name), text in _headline().items():
        measured = _below(headline, [*([] if where == "cells" else where.split(".")), name])
        if isinstance(measured, int | float):
            checks.append(compare("text", where, name, text, float(measured)))
    return checks


def printed_number(where: str, name: str) -> str | None:
    """Return a number as printed in the text, such as ``printed_number("predictor", "r")``.

    None for others.
    """
    return _headline().get((where, name))


@cache
def _headline() -> dict[tuple[str, str], str]:
    told: dict[tuple[str, str], str] = {}
    for line in HEADLINE.splitlines():
        where, _, rest = line.partition(": ")
        words = rest.split()
        told |= {(where, name): text for name, text in zip(words[::2], words[1::2], strict=True)}
    return told


def _below(value: Any, names: Sequence[str]) -> Any:
    """Return the nested value at some keys or indices; None where missing."""
    try:
        for name in names:
            value = value[int(name) if isinstance(value, list | tuple) else name]
    except (LookupError, TypeError):
        return None
    return value


def check(table: str, rows: Sequence[Row]) -> list[Check]:
    """Return checks of every printed number of a table against reproduced rows."""
    header, text = PRINTED[table]
    keys, columns = (part.split() for part in header.split("|"))
    by_key = {tuple(str(row[key]) for key in keys): row for row in rows}
    checks: list[Check] = []
    for line in text.splitlines():
        words = [word.replace("_", " ") for word in line.split()]
        key = tuple(words[: len(keys)])
        row = by_key.get(key, {})
        checks.extend(
            compare(table, " ".join(key), name, text, float(row[name]))
            for name, text in zip(columns, words[len(keys) :], strict=True)
            if text != "-" and row.get(name) is not None
        )
    return checks


def compare(table: str, row: str, column: str, printed: str, found: float) -> Check:
    """Compare a number with its printed text; ``>99%`` is a bound. Raises ValueError for other texts."""
    scale = 100.0 if printed.endswith("%") else 1.0
    bare = printed.rstrip("%").removeprefix(">")
    if printed.startswith(">"):
        return Check(table, row, column, printed, found, found * scale > float(bare))
    digits = len(bare.partition(".")[2])
    # A file of full precision rests on another order of the same sums.
    within = max(0.5 * 10.0**-digits, ROUNDING)
    agrees = abs(found * scale - float(bare)) <= within * (1 + 1e-9)
    return Check(table, row, column, printed, found, agrees)


TableRows = Sequence[Row]

# The largest K of the paper's curves.
LARGEST_K = 32
ADAPTIVE = ("repaid_after", "cost_at_1000", "net_cost", "retained")
# The cell whose interval the paper prints.
CELL = ("MATH", "Qwen-32B")

# Benchmarks over which the text gives the least and the largest change of rho.
RANGES = {
    "choice": ("ARC-C", "MMLU", "HellaSwag", "WinoGrande"),
    "math": ("GSM8K", "MATH"),
}


def from_saturation(tables: Mapping[str, TableRows], figures: Mapping[str, TableRows]) -> dict[str, Json]:
    """Return the ranges of Table 4 and Figure 2, where all their rows were reproduced."""
    numbers: dict[str, Json] = {}
    rows = tables.get("table4", [])
    if len(rows) == len(records.SERIES):
        zero = sum(row["gap_lo"] is not None and row["gap_lo"] <= 0 <= row["gap_hi"] for row in rows)
        numbers["adaptive_k"] = _ranges(rows, ADAPTIVE) | {"intervals_with_zero": zero}
    last = [row for row in figures.get("figure2", []) if row["k"] == LARGEST_K]
    if len(last) == len([series for series in records.SERIES if series.task == "gsm8k"]):
        numbers["held_out"] = _ranges(last, ("bb_error", "binomial_error"))
    return numbers


def from_matrix(table3: TableRows, cells: TableRows) -> dict[str, Json]:
    """Return means over domains, ranges over benchmarks, and the cell named in the text."""
    numbers: dict[str, Json] = {}
    change = {row["benchmark"]: row["delta_rho"] for row in table3}
    for domain in ("QA", "Code"):
        own = [row["delta_rho"] for row in table3 if row["domain"] == domain]
        if len(own) == sum(about.domain == domain for about in records.BENCHMARKS.values()):
            numbers[f"domain_{domain}"] = {"delta_rho": sum(own) / len(own)}
    for name, benchmarks in RANGES.items():
        if all(benchmark in change for benchmark in benchmarks):
            # The least change is the one nearest to zero: all of them are falls.
            most, least = _ends([change[benchmark] for benchmark in benchmarks])
            numbers[f"range_{name}"] = {"least": least, "most": most}
    for cell in cells:
        if (cell["benchmark"], cell["model"]) == CELL:
            numbers["math_qwen32b"] = {name: cell.get(name) for name in ("delta_rho", "rho_lo", "rho_hi")}
    return numbers


def _ranges(rows: TableRows, names: Sequence[str]) -> dict[str, Json]:
    """Return the range of some columns."""
    ends = {name: _ends([row[name] for row in rows]) for name in names}
    least: dict[str, Json] = {f"{name}_least": lo for name, (lo, _) in ends.items()}
    return least | {f"{name}_most": hi for name, (_, hi) in ends.items()}


def _ends(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else (None, None)


REFERENCE_KEYS = ("model", "task", "k")
# Columns of the authors' file by other names than ours.
REFERENCE_NAMES = {
    "model_slug": "model",
    "benchmark": "task",
    "dataset": "task",
    "agreement": "agree",
    "c_hat": "c",
    "chat": "c",
    "rho": "c",
    "rho_hat": "c",
    "keff": "k_eff",
    "k_eff_vote": "k_eff",
    "keff_vote": "k_eff",
    "p_bar": "p",
    "p_mean": "p",
    "accuracy": "p",
    "mean_acc": "p",
    "std": "p_std",
    "accuracy_std": "p_std",
    "mean_tokens": "tokens",
    "mv_acc": "mv",
    "majority": "mv",
    "majority_vote": "mv",
}
REFERENCE_VALUES = ("agree", "c", "k_eff", "ceiling", "p", "p_std", "tokens", "mv")


def check_reference(root: Path, samples: Mapping[str, ArmSample]) -> tuple[list[Check], list[str]]:
    """Return checks of the reference file's known numbers against the records, and problems."""
    path = root / records.REFERENCE
    if not path.is_file():
        return [], []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header, *rows = csv.reader(file)
    except (OSError, ValueError, csv.Error) as error:
        return [], [f"{path}: cannot be read: {error}"]
    forms = (name.strip().lower().replace("-", "_") for name in header)
    named = {REFERENCE_NAMES.get(form, form): name for form, name in zip(forms, header, strict=True)}
    lacking = [key for key in REFERENCE_KEYS if key not in named]
    if lacking:
        return [], [f"{path}: not used, because it has no column {' and no column '.join(lacking)}"]
    unknown = [name for key, name in named.items() if key not in (*REFERENCE_KEYS, *REFERENCE_VALUES)]
    problems = [f"{path}: columns not compared: {', '.join(unknown)}"] if unknown else []
    checks: list[Check] = []
    curves = {name: _curve(sample) for name, sample in samples.items()}
    for number, cells in enumerate(rows, 2):
        row = {key: text.strip() for key, text in zip(named, cells, strict=False)}
        model, task, k = (row.get(key, "") for key in REFERENCE_KEYS)
        curve = curves.get(f"{model}/{task}", {}).get(k.removesuffix(".0"))
        if curve is None:
            problems.append(f"{path}:{number}: no records of {model} on {task} at K = {k}")
            continue
        for key in REFERENCE_VALUES:
            text = row.get(key)
            if not text or key not in curve:
                continue
            try:
                checks.append(compare("reference", f"{model} {task} {k}", key, text, curve[key]))
            except ValueError:
                problems.append(f"{path}:{number}: {named[key]} is {text!r:.40}, not a number")
    return checks, problems


def _curve(sample: ArmSample) -> dict[str, dict[str, float]]:
    """Return the records' values by K, over all rows."""
    votes = majority_prefix(sample.votes)
    curve: dict[str, dict[str, float]] = {}
    for row in table1(sample):
        numbers = {name: float(value) for name, value in row.items() if isinstance(value, int | float)}
        curve[str(row["k"])] = numbers | {"mv": float(votes[int(numbers["k"]) - 1])}
    return curve
