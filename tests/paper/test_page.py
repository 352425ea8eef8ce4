"""The page on differences claims only what the numbers beside it show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from keff.paper import claims, matrix, records, saturation
from keff.paper.cell import MatrixCell, measure
from keff.paper.page import differences
from keff.paper.records import ArmSample
from keff.paper.reproduce import Reproduction
from keff.stats.votes import Votes

WIDTHS = {"rho": 0.24, "corrected": 0.43}


def page(**parts: Any) -> str:
    return differences(Reproduction(**parts).numbers())


def part(text: str, title: str) -> str:
    return next(one for one in text.split("## ") if one.startswith(title))


@pytest.mark.parametrize(
    ("cells", "resampled"),
    [([], "rows of each arm alone"), ([{"against": "sc"}], "instances of both arms together")],
)
def test_widths_are_told_with_what_was_resampled(cells: list[Any], resampled: str) -> None:
    sides = {
        name: {
            "cells": 60,
            "withheld": 0,
            "median_width": width,
            "iqr": [width - 0.05, width + 0.05],
            "exclude_zero": 50,
        }
        for name, width in WIDTHS.items()
    }
    text = part(page(headline={"precision": sides}, cells=cells), "Intervals of the change of rho")
    assert f"| mean Pearson (the paper's), {resampled} | 50 of 60 | 24 points | 19 to 29 | 0 |" in text
    assert "| corrected c, instances of both arms together | 50 of 60 | 43 points | 38 to 48 | 0 |" in text


def table1(y: np.ndarray) -> dict[str, Any]:
    sample = ArmSample(Votes(None, y), np.zeros(len(y), int), tuple(map(str, range(len(y)))), None)
    return {"table1": [{"model": "m", "task": "t"} | row for row in saturation.table1(sample)]}


def test_the_bias_of_eq_3_is_not_blamed_for_what_pearson_drops() -> None:
    rare = np.zeros((24, 8), int)
    rare[0, :2] = 1
    found = part(page(tables=table1(rare)), "c: mean Pearson")
    assert "Pearson minus Eq. 3 is +0." in found
    assert "The gap to Pearson is larger" in found
    chance = np.random.default_rng(1).beta(1, 1, (300, 1))
    usual = (np.random.default_rng(2).random((300, 8)) < chance).astype(int)
    found = part(page(tables=table1(usual)), "c: mean Pearson")
    assert "The correction removes the bias that Eq. 3 has at even odds" in found
    assert "gap to Pearson" not in found


def test_votes_say_that_they_are_averages_over_subsets() -> None:
    row = {"task": "t", "model": "m", "k_star": 6, "k_star_conservative": 7, "retained": 1.0}
    row |= {
        "average_retained": 1.0,
        "gap_lo": 0.0,
        "gap_hi": 0.0,
        "average_gap_lo": 0.0,
        "average_gap_hi": 0.0,
    }
    row |= {"average": 0.7, "average_star": 0.6, "plurality": 0.8, "plurality_star": 0.7}
    text = part(page(tables={"table4": [row]}), "The majority that the paper scores")
    assert "averages over all subsets" in text
    assert "70.0%, plurality 80.0% with all paths; at K* = 6: 60.0% and 70.0%" in text


def headline() -> dict[str, Any]:
    test = {"n_qa": 10, "n_math": 9, "p_normal": 0.0005, "p": 0.0002, "share_below_0.001": 0.12, "draws": 200}
    names = ("p", "c", "ceiling", "k_eff", "truncated", "c_pilot", "retained", "gap_lo", "gap_hi", "net_cost")
    ours = ("c_corrected", "average_retained", "average_gap_lo", "average_gap_hi")
    return {
        "mann_whitney": test,
        "predictor": {"n": 12, "r": -0.62, "p": 0.032, "r_lo": -0.88, "r_hi": -0.07},
        "not_in_figure3": {},
        "reasoning": dict.fromkeys((*names, *ours), 0.5) | {"k_star": 14, "k_star_conservative": 15},
    }


def test_tests_and_the_reasoning_model_stand_beside_the_print() -> None:
    found = headline()
    text = page(headline=found, checks=claims.check_headline(found))
    assert "| p, normal approximation | 0.00050 | 0.0005 |" in part(text, "Whether rho falls more on QA")
    assert "| draws with p below 0.001 | – | 12% |" in text
    assert "| r | -0.62 | -0.62 |" in part(text, "Answer diversity as a predictor")
    assert "| 95% interval of r (Fisher) | – | [-0.88, -0.07] |" in text
    assert "| accuracy of one path | 92.9% | 50.0% |" in part(text, "The reasoning model")
    assert "(paper: -0.5% to 0.0%)" in text


def test_a_study_has_no_column_of_the_paper() -> None:
    text = page(headline=headline())
    assert "| p, normal approximation | 0.0005 |" in text
    assert "paper: -0.5%" not in text


def test_unknown_numbers_are_dashes() -> None:
    found = headline()
    found["predictor"] = dict.fromkeys(("r", "p", "r_lo", "r_hi"), float("nan")) | {"n": 3}
    text = page(headline=found)
    assert "| 95% interval of r (Fisher) | [–, –] |" in text


def cell(task: str, *, right: float = 0.6, answers: bool = True) -> MatrixCell:
    rng = np.random.default_rng(list(task.encode()))
    chance = np.repeat(rng.beta(right, 1 - right, 30), 2)[:, None]
    names, diversity = tuple(map(str, range(30))), rng.random((60, 8)) if answers else None
    arms = [
        ArmSample(
            Votes(None, (rng.random((60, 8)) < chance).astype(int), clusters=np.repeat(np.arange(30), 2)),
            np.tile([1, 2], 30),
            names,
            diversity,
        )
        for _ in range(2)
    ]
    return measure("m", records.BENCHMARKS[task], (arms[0], arms[1]), 200, rng)


def test_what_figure_3_leaves_out_is_named() -> None:
    cells = [cell(task) for task in ("gsm8k", "triviaqa", "boolq", "drop")]
    cells += [cell("math", answers=False), cell("mmlu", right=0.001)]
    found = matrix.headline(cells)
    assert found["predictor"]["n"] == len(matrix.figure3(cells)) == 4
    assert found["not_in_figure3"] == {"MMLU": "no valid cell", "MATH": "scores only, no answers"}
    assert "MATH (scores only, no answers)" in page(headline=found)
    assert matrix.headline(cells[1:])["predictor"] is None  # of three points r says nothing


def test_what_does_not_apply_is_not_said() -> None:
    row = {"task": "t", "model": "m", "k_star": 8, "paths": 8, "retained": 1.0, "average_retained": 1.0}
    row |= dict.fromkeys(("gap_lo", "gap_hi", "average_gap_lo", "average_gap_hi"), 0.0)
    row |= {"average": 0.7, "average_star": 0.7, "plurality": 0.8, "plurality_star": 0.8}
    assert "over all subsets" not in page(tables={"table4": [row]}).split("## The majority")[0]
    fewer = page(tables={"table4": [row | {"k_star": 5, "retained": 0.9}]})
    assert "90.0% from the first paths" in fewer
    assert "more than 100%" not in fewer and "more than 100%" in page(
        tables={"table4": [row | {"k_star": 5, "retained": 1.1}]}
    )
    head = headline()["reasoning"] | {"truncated": 0.0}
    text = page(headline={"reasoning": head})
    assert "token limit count" not in text and "Nearly all" not in text
    assert "Nearly all" in page(headline={"reasoning": head | {"p": 0.95}})
