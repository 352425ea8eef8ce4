"""Count the words of the documentation and of its four paths, and name the paths' long sentences.

python scripts/doors.py

A path is a section of the navigation in mkdocs.yml that stands before the appendix: a reader has it in an
hour. Everything on its pages counts as words, code and tables too, but the bars and rules of tables. The page
of commands is in no count: the command line writes it. A sentence ends at a full stop, a colon
before a block, a cell of a table or an item of a list; code between backticks counts as one word in it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
DOCS = REPO / "docs"

MOST_WORDS = 3000
# Of all pages together: who looks something up reads past the rest.
MOST_IN_ALL = 28_000
# What a reader holds in mind until the verb comes.
LONGEST = 35

FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def doors() -> dict[str, list[Path]]:
    """Return the pages of each path, in the order of reading."""
    found: dict[str, list[Path]] = {}
    for line in (REPO / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2].splitlines():
        if section := re.fullmatch(r"  - ([^:]+):", line):
            if section[1] == "Appendix":
                break
            found[section[1]] = []
        elif (page := re.fullmatch(r"      - .*: (\S+\.md)", line)) and found:
            found[next(reversed(found))].append(DOCS / page[1])
    return found


def words(page: Path) -> int:
    """Return the words of a page: what stands between blanks or bars and holds a letter or a digit."""
    return sum(any(map(str.isalnum, word)) for word in page.read_text("utf-8").replace("|", " ").split())


def words_in_all() -> int:
    """Return the number of words of all pages but that of the commands."""
    return sum(words(page) for page in DOCS.rglob("*.md") if page.name != "help.md")


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page."""
    text = FENCE.sub("\n\n", text)
    text = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "CODE", text, flags=re.DOTALL)
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    # A heading, an item, a row of a table: each begins anew.
    text = re.sub(r"^(#+ .*|\|.*)$", r"\n\n\1\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"^\s*(?:[-*]|\d+\.) ", "\n\n", text, flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n|\|", text):
        yield from re.split(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*]*(?:[A-Z0-9]|keff\b))", " ".join(block.split()))


def too_long(page: Path) -> list[str]:
    """Return the sentences of a page that have more words than a reader should have to hold."""
    found = sentences(page.read_text("utf-8"))
    return [each for each in found if len(re.findall(r"\w[\w'’.,%/×-]*", each)) > LONGEST]


def main() -> int:
    wrong = 0
    for door, pages in doors().items():
        total = sum(map(words, pages))
        wrong += total > MOST_WORDS
        print(f"{door:22} {total:6,} words of at most {MOST_WORDS:,} on {len(pages)} pages")
        for page in pages:
            print(f"  {page.relative_to(DOCS)!s:30} {words(page):6,}")
            for sentence in too_long(page):
                wrong += 1
                print(f"    more than {LONGEST} words: {sentence}")
    total = words_in_all()
    wrong += total > MOST_IN_ALL
    print(f"{'all pages':22} {total:6,} words of at most {MOST_IN_ALL:,}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
