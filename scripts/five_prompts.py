"""Print the tables behind docs/prompt-templates.md from recorded paths of one model under five prompts.

    python scripts/five_prompts.py FOLDER

FOLDER holds the one-line-per-question records renze_comprehensive-100_gpt-35-turbo_*.jsonl. Each arm is the
first five paths at temperature 0.7 of one prompt; the template arm is the first path of each. Answers are
compared as choices, so a path that names no option abstains.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keff.analysis.arms import compare
from keff.analysis.results.comparison import ArmResult
from keff.paper.tables import tables
from keff.reading.open import Opening, Record, open_record
from keff.records import Interval, number
from keff.report.tables import render

STEM = "renze_comprehensive-100_gpt-35-turbo_"
PROMPTS = ("baseline", "chain_of_thought", "composite", "domain_expert", "self_recitation")
TEMPERATURE = 0.7
Row = Mapping[str, Any]


def rows(file: Path) -> list[dict[str, Any]]:
    """Return the questions of a record with the paths of one temperature."""
    found: list[dict[str, Any]] = []
    for line in file.read_text("utf-8").splitlines():
        row = json.loads(line)
        kept = [at for at, heat in enumerate(row["all_temperatures"]) if heat == TEMPERATURE]
        paths = {name: [row[name][at] for at in kept] for name in ("all_answers", "all_correct")}
        found.append({"id": row["id"], "gold_answer": row["gold_answer"], **paths})
    return found


def template_arm(prompts: Sequence[Sequence[Row]], draw: int) -> list[dict[str, Any]]:
    """Return an arm whose path j is the ``draw``-th of prompt j."""
    return [
        {
            "id": same[0]["id"],
            "gold_answer": same[0]["gold_answer"],
            **{name: [row[name][draw] for row in same] for name in ("all_answers", "all_correct")},
            "slots": list(range(len(same))),
        }
        for same in zip(*prompts, strict=True)
    ]


def written(lines: Sequence[Row], file: Path, k: int = len(PROMPTS)) -> Record:
    """Write an arm of its first k paths, and open it."""
    with file.open("w", encoding="utf-8") as out:
        for row in lines:
            short = {name: row[name][:k] for name in ("all_answers", "all_correct")}
            out.write(json.dumps({**row, **short}) + "\n")
    return open_record(file, Opening(answer_space="choice"))


def arm_line(name: str, arm: ArmResult, record: Record) -> str:
    """Return one row of the table of arms."""
    answers = record.ballot.votes.answers
    silent = 0.0 if answers is None else float(np.mean(answers < 0))
    return (
        f"| {name} | {arm.p:.1%} | {arm.rho:.2f} | {arm.c.text()} | {arm.k_eff:.2f} | {arm.majority:.1%} "
        f"| {number(arm.plurality, '.1%')} | {silent:.1%} | {number(arm.answer_diversity)} | "
        f"{arm.phi.ratio:.2f} |"
    )


def _text(change: Interval | None) -> str:
    return "–" if change is None else change.text("+.1%")


def main(folder: Path) -> None:
    """Print both tables as Markdown."""
    prompts = {name: rows(folder / f"{STEM}{name}.jsonl") for name in PROMPTS}
    with tempfile.TemporaryDirectory() as scratch:
        single = {name: written(lines, Path(scratch) / f"{name}.jsonl") for name, lines in prompts.items()}
        draws = min(len(row["all_answers"]) for lines in prompts.values() for row in lines)
        mixed = [
            written(template_arm(list(prompts.values()), draw), Path(scratch) / f"templates-{draw}.jsonl")
            for draw in range(draws)
        ]
        whole = [
            written(lines, Path(scratch) / f"{name} (10 paths).jsonl", draws)
            for name, lines in prompts.items()
        ]
        shown = [one for one in tables(whole, 10_000, 0) if one.name in ("arms", "table4")]
        against = {name: [compare(one, two) for two in mixed] for name, one in single.items()}
    print(
        "| arm | one path | rho | c, corrected | K_eff | majority | plurality | no answer | answer "
        "diversity | rho / rho-max |"
    )
    print("| --- |" + " ---: |" * 9)
    for name, found in against.items():
        print(arm_line(name, found[0].arms[0], single[name]))
    print(arm_line("**one path of each**", next(iter(against.values()))[0].arms[1], mixed[0]))
    print(f"\n| against | delta rho | delta K_eff | majority | plurality | delta rho of {draws} draws |")
    print("| --- |" + " ---: |" * 5)
    for name, found in against.items():
        all_draws = [one.delta_rho.value for one in found]
        first = found[0]
        print(
            f"| {name} | {first.delta_rho.text('+.0%')} | {first.delta_k_eff.text('+.2f')} "
            f"| {first.delta_majority.text('+.1%')} | {_text(first.delta_plurality)} "
            f"| {min(all_draws):+.0%} to {max(all_draws):+.0%}, mean {np.mean(all_draws):+.0%} |"
        )
    for table in shown:
        print()
        print(render(table, "markdown"))
    votes = [one.arms[1].plurality or 0.0 for one in next(iter(against.values()))]
    print(
        f"\nPlurality of the {draws} template arms: {min(votes):.1%} to {max(votes):.1%}, mean "
        f"{np.mean(votes):.1%}"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
