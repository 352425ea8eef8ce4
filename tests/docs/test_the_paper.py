"""Every row of the table of the paper's claims names something that exists, once, with a verdict."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "the-paper.md"
ROW = r"^\| (.+?) \| `((?:keff|scipy)\.[\w.]+)` \| (.+) \|$"
ROWS = re.findall(ROW, PAGE.read_text("utf-8"), flags=re.MULTILINE)
PAPER = Path(__file__).resolve().parents[3] / "shared" / "paper" / "diversity_combining.tex"


@pytest.mark.parametrize(("name", "verdict"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_row_names_what_is_there_and_says_how_it_stands(name: str, verdict: str) -> None:
    module, _, member = name.rpartition(".")
    assert hasattr(importlib.import_module(module), member)
    assert re.match(r"agrees|corrected|goes past", verdict)


def test_no_row_is_left_out_of_the_check() -> None:
    table = PAGE.read_text("utf-8").partition("| --- | --- | --- |\n")[2].partition("\n\n")[0]
    assert len(table.splitlines()) == len(ROWS) > 40


def test_equations_have_the_papers_numbers() -> None:
    """Counted in its source: numbered environments in order, and the labels that the rows are about."""
    if not PAPER.is_file():
        pytest.skip("the paper's source is not here")
    source = PAPER.read_text("utf-8")
    blocks = re.findall(r"\\begin\{(?:equation|multline)\}(.*?)\\end", source, flags=re.DOTALL)
    labels = [re.search(r"\\label\{eq:(\w+)\}", block) for block in blocks]
    number = {label[1]: place for place, label in enumerate(labels, 1) if label}
    wanted = {"corr_c": 3, "keff_rank": 4, "keff_vote": 5, "keff_formula": 6, "mv_corr": 9}
    wanted |= {"gls_weights": 10, "gls_empirical": 11, "adaptive_k": 12}
    assert {name: number[name] for name in wanted} == wanted
    kinds = r"\\(section|begin)\{(theorem|proposition|corollary|assumption|remark)?"
    section = place = 0
    found: dict[str, str] = {}
    for line in source.splitlines():
        if line.startswith(r"\section{"):
            section, place = section + 1, 0
        elif (begun := re.match(kinds, line)) and begun[2]:
            place += 1
            key = f"{begun[2].capitalize()} {section}.{place}"
        elif (label := re.match(r"\\label\{((?:thm|prop|cor|asm|rem):\w+)\}", line)) and place:
            found[label[1]] = key
    assert found["thm:keff"] == "Theorem 4.1"
    assert found["thm:mv"] == "Theorem 4.2"
    assert found["rem:multiclass"] == "Remark 4.3"
    assert found["thm:gls"] == "Theorem 4.4"
    assert (found["cor:special"], found["cor:gain"]) == ("Corollary 4.5", "Corollary 4.7")
    assert (found["asm:gaussian_decision"], found["prop:bridge"]) == ("Assumption 3.3", "Proposition 3.4")
