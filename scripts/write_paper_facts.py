"""Write the facts of the paper that tests compare with: ``tests/data/paper.json``.

    python scripts/write_paper_facts.py PAPER.tex

Only facts: the numbers of equations and statements by their labels, the domain and the answers of each task
in its table, and a SHA-256 of each prompt template, by which a template of keff is known to be the paper's.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from itertools import count
from pathlib import Path

FACTS = Path(__file__).resolve().parent.parent / "tests" / "data" / "paper.json"


def equations(source: str) -> dict[str, int]:
    """Return the number of each labelled equation: numbered environments, in their order."""
    blocks = re.findall(r"\\begin\{(?:equation|multline)\}(.*?)\\end", source, flags=re.DOTALL)
    labels = [re.search(r"\\label\{eq:(\w+)\}", block) for block in blocks]
    return {label[1]: number for number, label in zip(count(1), labels, strict=False) if label}


def statements(source: str) -> dict[str, str]:
    """Return kind and number of each labelled theorem, proposition, corollary, assumption and remark."""
    kinds = r"\\begin\{(theorem|proposition|corollary|assumption|remark)\}"
    section, number, key = 0, 0, ""
    found: dict[str, str] = {}
    for line in source.splitlines():
        if line.startswith(r"\section{"):
            section, number = section + 1, 0
        elif begun := re.match(kinds, line):
            number += 1
            key = f"{begun[1].capitalize()} {section}.{number}"
        elif label := re.match(r"\\label\{((?:thm|prop|cor|asm|rem):\w+)\}", line):
            found[label[1]] = key
    return found


def tasks(source: str) -> dict[str, tuple[str, str]]:
    """Return the domain and the kind of answers of each task in the table of the full matrix."""
    table = source[source.index(r"\label{tab:full_matrix}") :].partition(r"\end{tabular}")[0]
    domain, found = "", {}
    for line in table.splitlines():
        if named := re.search(r"\\multirow\{2\}\{\*\}\{(.+?)\}", line):
            domain = named[1]
        if named := re.match(r"\s*& ([\w-]+)(?:\$.*?\$)?\s*& ([\w ()/]+?)\s*&", line):
            found[named[1].lower().replace("arc-c", "arc_challenge")] = (domain, named[2])
    return found


def templates(source: str) -> dict[str, list[str]]:
    """Return a SHA-256 of each template of the appendix, by the title of its group."""
    appendix = source[source.index(r"\label{app:templates}") :].partition(r"\section")[0]
    return {
        block.partition("}")[0].rstrip(".:"): [
            hashlib.sha256(text.replace(r"vs.\ ", "vs. ").encode()).hexdigest()
            for text in re.findall(r"\\item [^`]*``(.*?)''", block)
        ]
        for block in appendix.split(r"\noindent\textbf{")[1:]
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    paper = Path(sys.argv[1]).read_text("utf-8")
    parts = (equations, statements, tasks, templates)
    FACTS.write_text(json.dumps({part.__name__: part(paper) for part in parts}, indent=1) + "\n", "utf-8")
