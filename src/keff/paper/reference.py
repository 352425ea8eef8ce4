"""The published reference file of the saturation curves, held against what its records give.

``reference/kvar_v2_exact_k.csv`` has a header, a model, a task, a number of paths K and values. Columns are
known by their names, in any case and order; those that are not known are named, and none is guessed at.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from keff.paper import layout
from keff.paper.claims import Check, compare
from keff.paper.records import Sample
from keff.paper.saturation import table1
from keff.stats.majority import majority_prefix

KEYS = {"model": ("model", "model_slug"), "task": ("task", "benchmark", "dataset"), "k": ("k",)}
VALUES = {
    "agree": ("agree", "agreement"),
    "c": ("c", "c_hat", "chat", "rho", "rho_hat"),
    "k_eff": ("k_eff", "keff", "k_eff_vote", "keff_vote"),
    "ceiling": ("ceiling",),
    "p": ("p", "p_bar", "p_mean", "accuracy", "mean_acc"),
    "p_std": ("p_std", "std", "accuracy_std"),
    "tokens": ("tokens", "mean_tokens"),
    "mv": ("mv", "mv_acc", "majority", "majority_vote"),
}


def check_reference(root: Path, samples: Mapping[str, Sample]) -> tuple[list[Check], list[str]]:
    """Hold every number of the file that is known against the records; returns checks and problems."""
    path = layout.find(root, layout.REFERENCE)
    if path is None:
        return [], []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            header = list(reader.fieldnames or ())
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        return [], [f"{path}: cannot be read: {error}"]
    named = {key: _column(header, names) for key, names in (KEYS | VALUES).items()}
    lacking = [key for key in KEYS if named[key] is None]
    if lacking:
        return [], [f"{path}: not used, for it has no column {' and no column '.join(lacking)}"]
    unknown = [name for name in header if name not in named.values()]
    problems = [f"{path}: columns not compared: {', '.join(unknown)}"] if unknown else []
    checks: list[Check] = []
    curves = {name: _curve(sample) for name, sample in samples.items()}
    for number, row in enumerate(rows, 2):
        model, task, k = (str(row[named[key] or ""] or "").strip() for key in KEYS)
        curve = curves.get(f"{model}/{task}", {}).get(k.removesuffix(".0"))
        if curve is None:
            problems.append(f"{path}:{number}: no records of {model} on {task} at K = {k}")
            continue
        for key in VALUES:
            text = (row[named[key] or ""] or "").strip() if named[key] else ""
            known = curve.get(key)
            if not text or known is None:
                continue
            try:
                checks.append(compare("reference", f"{model} {task} {k}", key, text, known))
            except ValueError:
                problems.append(f"{path}:{number}: {named[key]} is {text!r:.40}, not a number")
    return checks, problems


def _curve(sample: Sample) -> dict[str, dict[str, float]]:
    """Return what the records give by K, over all rows."""
    votes = majority_prefix(sample.votes)
    curve: dict[str, dict[str, float]] = {}
    for row in table1(sample):
        numbers = {name: float(value) for name, value in row.items() if isinstance(value, int | float)}
        curve[str(row["k"])] = numbers | {"mv": float(votes[int(numbers["k"]) - 1])}
    return curve


def _column(header: list[str], names: tuple[str, ...]) -> str | None:
    return next((column for column in header if column.strip().lower().replace("-", "_") in names), None)
