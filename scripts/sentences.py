"""Print every sentence that keff shows, for who reads them all: ``python scripts/sentences.py [NUMBER]``.

First what commands print of the sample logs, with their values; then every sentence of the source with its
place, where ``{...}`` stands for a value. NUMBER draws so many of them at random instead.
"""

from __future__ import annotations

import ast
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
COMMANDS = (
    "analyze answers.csv --now 8 -v",
    "analyze answers.csv --now 8 --slower any",
    "analyze small.jsonl --rule adaptive_k",
    "replay answers.csv fixed:8 lead_k:2,cap=8 --now 8",
    "noise answers.csv",
    "compare small.jsonl large.jsonl",
    "audit small.jsonl large.jsonl",
    "mix small.jsonl large.jsonl",
    "combine small.jsonl",
    "predict --p 0.8 --c 0.6 --k 32",
    "read answers.csv --show 3",
)
# So many words make a sentence; fewer are a label.
WORDS = 4


def printed() -> Iterator[str]:
    """Yield what each command prints of the sample logs."""
    for command in COMMANDS:
        done = subprocess.run(
            [sys.executable, "-m", "keff", *command.split()],
            cwd=REPO / "examples",
            env=os.environ | {"COLUMNS": "100"},
            capture_output=True,
            text=True,
            check=True,
        )
        yield f"$ keff {command}\n{done.stdout}{done.stderr}"


def templates() -> Iterator[str]:
    """Yield every sentence of the source after its place, docstrings left out."""
    for file in sorted((REPO / "src" / "keff").rglob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        skipped = set[int]()
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                skipped |= set(map(id, node.values))
            elif isinstance(node, ast.Expr):
                skipped.add(id(node.value))
        for node in ast.walk(tree):
            if not isinstance(node, ast.expr) or id(node) in skipped:
                continue
            text = written(node)
            if len(re.findall(r"[A-Za-z]{2,}", re.sub(r"\{.*?\}", "", text))) >= WORDS and " " in text:
                yield f"{file.relative_to(REPO)}:{node.lineno}: {text}"


def written(node: ast.AST) -> str:
    """Return a text of the source, ``{...}`` for what is put into it; "" for other nodes."""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            f"{{{ast.unparse(part.value)}}}" if isinstance(part, ast.FormattedValue) else written(part)
            for part in node.values
        )
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


if __name__ == "__main__":
    if sys.argv[1:]:
        print(*random.sample(list(templates()), int(sys.argv[1])), sep="\n")
    else:
        print(*printed(), *templates(), sep="\n")
