"""Every number of a reproduction once more, from the lines of the records, by nothing of keff's.

Writes complete records in the published layout, reproduces them, and computes tables, figures, cells and the
numbers of the text again by the plain loops of ``loops``. Those that rest on random draws, or on the lower
limit of c, are named and left out.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper.loops import (
    Arm,
    adaptive,
    arms,
    cell,
    figure2,
    figure3,
    headline,
    leaves,
    observed,
    pearson,
    same,
    table1,
    table2,
    table3,
    table8,
    table9,
    table11,
    templates,
    worth,
)
from keff.paper import records as published
from keff.paper.reproduce import Reproducing, reproduce
from tests.rigs.published_records import write_all

RANDOM = re.compile(
    r"(^|\.)(gap_(lo|hi)|(rho|corrected)_(lo|hi)|k_star_conservative|table10\..*"
    r"|precision\..*|share_below_0\.001|draws|\w*cross_fitted|best_slot_gain|intervals_with_zero)$"
)


def again(root: Path) -> dict[str, Any]:
    """Return what ``numbers.json`` should hold, but for the numbers that rest on random draws."""
    names = {series: _names(series) for series in published.SERIES}
    read = {series: arms(root / series.file)[series.task, "sc"] for series in published.SERIES}
    thinking = arms(root / published.REASONING.file)["gsm8k", "sc"]
    gsm8k = [series for series in published.SERIES if series.task == "gsm8k"]
    two = [names[series] | row for series in gsm8k for row in figure2(read[series])]
    cells, slots = [], dict[str, list[Arm]]()
    for file, model, tasks in published.matrix_files():
        parts = arms(root / file)
        for task in tasks:
            sc, pt = parts[task, "sc"], parts[task, "sc_prompttpl"]
            cells.append(cell(published.MODELS[model], published.BENCHMARKS[task], sc, pt))
            slots.setdefault(published.BENCHMARKS[task].label, []).append(pt)
    benchmarks = list(published.BENCHMARKS.values())
    order = [about.label for about in benchmarks]
    cells.sort(key=lambda one: order.index(one["benchmark"]))
    points, three = figure3(cells, benchmarks), table3(cells, benchmarks)
    four = [names[series] | adaptive(read[series]) for series in published.SERIES]
    head = headline(cells, points) | of_the_text(cells, three)
    c = pearson(thinking.y)
    head["reasoning"] = {"p": thinking.p, "c": c, "ceiling": 1 / c, "k_eff": worth(32, c)}
    head["reasoning"] |= {"truncated": thinking.cut.mean()} | adaptive(thinking) | _names(published.REASONING)
    last = [row for row in two if row["k"] == 32]
    for where, rows, keys in (
        ("adaptive_k", four, ("repaid_after", "cost_at_1000", "net_cost", "retained")),
        ("held_out", last, ("bb_error", "binomial_error")),
    ):
        head[where] = {f"{key}_least": min(row[key] for row in rows) for key in keys}
        head[where] |= {f"{key}_most": max(row[key] for row in rows) for key in keys}
    head["not_in_figure3"] = dict.fromkeys(("MBPP", "CruxEval"), "scores only, no answers")
    return {
        "tables": {
            "table1": [names[published.SERIES[0]] | row for row in table1(read[published.SERIES[0]])],
            "table2": [names[series] | table2(read[series]) for series in gsm8k],
            "table3": three,
            "table4": four,
            "table8": table8(cells),
            "table9": [_names(published.REASONING) | row for row in table9(thinking)],
            "table11": [names[series] | row for series in gsm8k for row in table11(read[series])],
        },
        "figures": {
            "figure2": two,
            "saturation": [names[series] | row for series in gsm8k for row in observed(read[series])],
            "figure3": points,
            "templates": templates({label: slots[label] for label in order}),
        },
        "headline": head,
        "cells": cells,
    }


def of_the_text(cells: list[dict[str, Any]], three: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the numbers of the paper's text that name a cell, a domain or some benchmarks."""
    (own,) = [one for one in cells if (one["model"], one["benchmark"]) == ("Qwen-32B", "MATH")]
    numbers: dict[str, Any] = {"math_qwen32b": {"delta_rho": own["delta_rho"]}}
    for domain in ("QA", "Code"):
        parts = [row["delta_rho"] for row in three if row["domain"] == domain]
        numbers[f"domain_{domain}"] = {"delta_rho": np.mean(parts)}
    for name, labels in (
        ("choice", ("ARC-C", "MMLU", "HellaSwag", "WinoGrande")),
        ("math", ("GSM8K", "MATH")),
    ):
        parts = [row["delta_rho"] for row in three if row["benchmark"] in labels]
        numbers[f"range_{name}"] = {"least": max(parts), "most": min(parts)}
    return numbers


def _names(series: published.Series) -> dict[str, Any]:
    about = published.BENCHMARKS[series.task]
    names = {"task": f"{about.label} ({about.domain})", "model": published.MODELS[series.model]}
    return names | {"paths": published.SATURATION_K}


def main() -> None:
    """Print how many numbers agree, by table, and name those that do not."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=1, help="sets of records, each drawn anew")
    wanted = parser.parse_args().seeds
    counts, differ, random = Counter[str](), list[str](), Counter[str]()
    for seed in range(wanted):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            write_all(root, seed, trace=5)
            numbers = reproduce(root, Reproducing(replicates=50)).numbers()
            known = dict(leaves(again(root)))
        for name in ("missing", "problems", "checks"):
            numbers.pop(name)
        for where, theirs in leaves(numbers):
            table = ".".join(where.split(".")[: 1 if where.startswith(("cells", "headline")) else 2])
            if RANDOM.search(where):
                random[where.rpartition(".")[2]] += 1
            elif where not in known or not same(where, known[where], theirs):
                differ.append(f"{where}: {theirs!r}, again {known.get(where, 'not computed')!r}")
            elif not isinstance(theirs, str):
                counts[table] += 1
    for table, count in sorted(counts.items()):
        print(f"{table:22} {count:6,}")
    names = ", ".join(sorted(name for name in random if not name.isdigit()))
    print(f"left out: {random.total():,} ({names})")
    print("\n".join(differ) or "every other number agrees")
    total = counts.total()
    print(f"claim: numbers of the reproduction computed again | {total:,} of {total + len(differ):,} | all")


if __name__ == "__main__":
    main()
