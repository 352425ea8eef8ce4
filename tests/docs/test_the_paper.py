"""Every row of the table of the paper's claims names something that exists, once, with a verdict."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "the-paper.md"
ROW = r"^\| (.+?) \| `((?:keff|scipy)\.[\w.]+)` \| (.+) \|$"
ROWS = re.findall(ROW, PAGE.read_text("utf-8"), flags=re.MULTILINE)
FACTS = Path(__file__).resolve().parents[1] / "data" / "paper.json"


@pytest.mark.parametrize(("name", "verdict"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_row_names_what_is_there_and_says_how_it_stands(name: str, verdict: str) -> None:
    module, _, member = name.rpartition(".")
    assert hasattr(importlib.import_module(module), member)
    assert re.match(r"agrees|corrected|goes past", verdict)


def test_no_row_is_left_out_of_the_check() -> None:
    table = PAGE.read_text("utf-8").partition("| --- | --- | --- |\n")[2].partition("\n\n")[0]
    assert len(table.splitlines()) == len(ROWS) > 40


def test_rows_have_the_papers_numbers() -> None:
    """What a function computes is cited by the number that the paper's label of it has."""
    facts = json.loads(FACTS.read_text("utf-8"))
    number = {label: f"Eq. {place}" for label, place in facts["equations"].items()} | facts["statements"]
    cited = {
        "pooled_c": ("corr_c",),
        "k_eff": ("keff_vote",),
        "k_eff_rank_equal": ("keff_formula", "thm:keff"),
        "c_from_rho_d": ("asm:gaussian_decision", "prop:bridge"),
        "majority_binomial": ("thm:mv",),
        "multiclass_p": ("rem:multiclass",),
        "majority_beta_binomial": ("mv_corr",),
        "gls_weights": ("gls_weights", "thm:gls", "cor:special"),
        "gls_r_weights": ("gls_empirical",),
        "k_star": ("adaptive_k",),
    }
    for function, labels in cited.items():
        rows = " ".join(title for title, name, _ in ROWS if name.endswith(f".{function}"))
        assert [label for label in labels if not re.search(rf"{number[label]}\b", rows)] == [], function
