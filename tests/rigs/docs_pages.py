"""The pages of the documentation and the commands that they show."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
DOCS = REPO / "docs"
README = REPO / "README.md"
PAGES = sorted([*DOCS.rglob("*.md"), README])
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [code for name, code in FENCE.findall(page.read_text("utf-8")) if name == language]


def commands(page: Path) -> list[str]:
    """Return the commands of keff that a page shows, whole, without comments."""
    lines = "\n".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    steps = [step.strip() for line in lines for step in line.partition("  #")[0].split("&&")]
    return [step for step in steps if step.startswith("keff ")]


def prepared(folder: Path) -> None:
    """Write the files that the commands of the README read."""
    draw = random.Random(1)
    rows: list[dict[str, Any]] = []
    for name in ("answers", "small", "large", "one_prompt", "templates"):
        rows = []
        for place in range(40):
            ease = random.Random(place).betavariate(2, 1)
            votes = ["4" if draw.random() < ease else draw.choice("567") for _ in range(16)]
            rows.append({"id": f"q{place}", "gold_answer": "4", "all_answers": votes})
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = ["id,answer,gold_answer"]
    lines += [f"{row['id']},{answer},{row['gold_answer']}" for row in rows for answer in row["all_answers"]]
    (folder / "answers.csv").write_text("\n".join(lines) + "\n")
    (folder / "questions.jsonl").write_text('{"id": "1", "question": "6 x 7?", "answer": "42"}\n')


OFFLINE = ("analyze", "replay", "mix", "report", "read", "compare")


def offline(page: Path) -> list[str]:
    """Return the commands of a page that need no model; fails where a page lost one."""
    shown = [line for line in commands(page) if line.split()[1] in OFFLINE and " pilot" not in line]
    assert {line.split()[1] for line in shown} == set(OFFLINE)
    return shown
