"""Count the house: tokens, lines, files, rooms, comments, options; fail where a class name has two meanings.

python scripts/house.py

The figures are signs and no goals: nothing is asserted of them. Tokens are Python's own without comments and
layout; a comment line is a line with a comment on it; rooms are the files and folders directly below
``src/keff``; options are the distinct ``--flags`` of docs/help.md.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "keff"
HELP = ROOT / "docs" / "help.md"
LAYOUT = (
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.COMMENT,
)


def tokens_and_comments(file: Path) -> tuple[int, int, int]:
    """Return the tokens of a file, its lines, and its lines with a comment."""
    tokens, comments = 0, set[int]()
    with file.open("rb") as stream:
        for token in tokenize.tokenize(stream.readline):
            if token.type == tokenize.COMMENT:
                comments.add(token.start[0])
            tokens += token.type not in (*LAYOUT, tokenize.ENCODING)
    return tokens, file.read_text("utf-8").count("\n"), len(comments)


def classes(files: list[Path]) -> dict[str, list[Path]]:
    """Return the files of every class at the top of a module, by its name."""
    found: dict[str, list[Path]] = defaultdict(list)
    for file in files:
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(file)
    return found


def shared_names(files: list[Path]) -> dict[str, list[str]]:
    """Return the class names that stand for several things, with where."""
    return {
        name: [str(file.relative_to(SOURCES)) for file in places]
        for name, places in sorted(classes(files).items())
        if len(places) > 1
    }


def options() -> set[str]:
    """Return the distinct options of the command line."""
    return set(re.findall(r"`(--[a-z][a-z0-9-]*)`", HELP.read_text("utf-8")))


def figures() -> Iterator[tuple[str, float]]:
    """Yield every figure with its name."""
    files = sorted(SOURCES.rglob("*.py"))
    counted = [tokens_and_comments(file) for file in files]
    tokens, lines, comments = (sum(column) for column in zip(*counted, strict=True))
    rooms = {file.relative_to(SOURCES).parts[0] for file in files} - {"__init__.py", "__main__.py"}
    yield "tokens", tokens
    yield "lines", lines
    yield "files", len(files)
    yield "rooms at the top", len(rooms)
    yield "comment lines, percent", round(100 * comments / lines, 2)
    yield "options", len(options())


def main() -> int:
    for name, value in figures():
        print(f"{name:24} {value:10,.6g}")
    shared = shared_names(sorted(SOURCES.rglob("*.py")))
    for name, places in shared.items():
        print(f"{name} names several classes: {', '.join(places)}")
    return 1 if shared else 0


if __name__ == "__main__":
    raise SystemExit(main())
