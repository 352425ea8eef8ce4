"""Count the house: names, tokens, files, comments, options; fail where a figure passes its limit.

python scripts/house.py [--names]

Tokens are Python's own without comments and layout; a comment line is a line with a comment on it; rooms are
the files and folders directly below ``src/keff``; options are the distinct ``--flags`` of docs/help.md.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Figure:
    """A count with the most it may be (``least``: the least)."""

    name: str
    value: float
    limit: float
    least: bool = False

    @property
    def kept(self) -> bool:
        return self.value >= self.limit if self.least else self.value <= self.limit

    def line(self) -> str:
        bound = "at least" if self.least else "at most"
        mark = "" if self.kept else "   <-- passed"
        return f"{self.name:28} {self.value:10,.6g}   {bound} {self.limit:,.6g}{mark}"


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


def figures() -> Iterator[Figure]:
    """Yield every figure with its limit: what is reached, so that nothing grows unseen.

    The goals are no shared name, 415,000 tokens, 360 files, 26 rooms, 2.5% comments and 90 options.
    """
    files = sorted(SOURCES.rglob("*.py"))
    counted = [tokens_and_comments(file) for file in files]
    tokens, lines, comments = (sum(column) for column in zip(*counted, strict=True))
    yield Figure("class names with two meanings", len(shared_names(files)), 0)
    yield Figure("tokens", tokens, 415_000)
    yield Figure("files", len(files), 350)
    rooms = {file.relative_to(SOURCES).parts[0] for file in files} - {"__init__.py", "__main__.py"}
    yield Figure("rooms at the top", len(rooms), 26)
    yield Figure("comment lines, percent", round(100 * comments / lines, 2), 2.75, least=True)
    yield Figure("options", len(options()), 88)


def main() -> int:
    if "--names" in sys.argv:
        for name, places in shared_names(sorted(SOURCES.rglob("*.py"))).items():
            print(name, *places)
        return 0
    found = list(figures())
    print("\n".join(figure.line() for figure in found))
    return 0 if all(figure.kept for figure in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
