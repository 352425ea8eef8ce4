"""The pages of the documentation and the commands that they show."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

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
    """Copy the sample logs that the commands of the README read."""
    (folder / "examples").mkdir()
    for file in (REPO / "examples").glob("*.[cj]s*"):
        shutil.copy(file, folder / "examples")


OFFLINE = ("analyze", "read", "replay", "report", "mix", "noise", "compare", "audit")


def offline(page: Path) -> list[str]:
    """Return the commands of a page that need no model; fails where a page lost one."""
    shown = [line for line in commands(page) if line.split()[1] in OFFLINE and "RECORD" not in line]
    assert {line.split()[1] for line in shown} == set(OFFLINE)
    return shown
