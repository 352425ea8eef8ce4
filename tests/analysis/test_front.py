"""The library takes the keywords of the command line, and says what it does not take."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import command_line
import keff
from keff.analysis.replay import Replaying
from keff.analysis.wanted import WANTED, settings_of
from keff.cli.analyze import command as analyze_command

pytestmark = pytest.mark.slow


def answers(n: int = 60, k: int = 8, seed: int = 0, level: float = 0.6) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    chances = rng.beta(4 * level, 4 * (1 - level), (n, 1))
    return np.where(rng.random((n, k)) < chances, "4", rng.choice(["5", "6", "7"], (n, k))).tolist()


GOLD = {"gold_answer": ["4"] * 60}


def test_the_keywords_are_the_options_of_the_command_line() -> None:
    options = {*inspect.signature(analyze_command).parameters}
    assert options >= {*WANTED}


def test_a_replay_takes_the_keywords_of_an_analysis_and_has_its_rule() -> None:
    rows, asked = answers(), {"now": 4, "retain": 0.98, "slower": "any"}
    found = keff.replay(rows, ["fixed:4"], **asked, **GOLD)
    assert found.decision == keff.analyze(rows, **asked, **GOLD).decision
    assert found.baseline == "fixed:4" and found[found.decision.policy].expected_kept is not None
    with pytest.raises(keff.KeffError, match="settings hold every choice: leave out now"):
        keff.replay(rows, ["fixed:4"], Replaying(), now=4, **GOLD)


def test_keywords_say_what_settings_say(tmp_path: Path) -> None:
    rows = answers()
    file = tmp_path / "log.jsonl"
    lines = ({"id": str(i), "gold_answer": "4", "all_answers": row} for i, row in enumerate(rows))
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    by_words = keff.analyze(file, now=4, cap=8, retain=0.98, prices={"m": {"path": 0.01}}, volume=1000)
    prices = tmp_path / "prices.toml"
    prices.write_text('["m"]\npath = 0.01\n')
    options = ["--now", 4, "--cap", 8, "--retain", 0.98, "--prices", prices, "--volume", 1000]
    shown = json.loads(command_line.keff("analyze", file, *options, "--json").stdout)
    assert by_words.to_dict() == shown
    terms = keff.Terms(now="4")
    assert settings_of({"now": 4}).terms == terms
    with_settings = keff.analyze(file, keff.Settings(aim=keff.Aim(retain=0.98), terms=terms))
    assert with_settings.decision.reference == "fixed:4"


def test_without_now_the_recorded_paths_are_the_reference_whatever_the_cap() -> None:
    rows = answers(k=4)
    for cap in (2, None, 16):
        decision = keff.analyze(rows, gold_answer=GOLD["gold_answer"], cap=cap).decision
        assert decision.reference == "fixed:4" and decision.measured
        assert keff.parse_policy(decision.policy).cap <= (cap or 4)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"caps": 8}, "did you mean cap"),
        ({"cap": 0}, "cap must be 1 to"),
        ({"now": "leed:3"}, "leed"),
        ({"epsilon": 0.0}, "epsilon must be above 0"),
        ({"retain": 0.99, "budget": 3.0}, "one aim"),
        ({"budget_dollars": 1.0}, "prices"),
        ({"pace": "fast"}, "0.5\\+60"),
        ({"prices": {"m": {"prompt": 1}}}, "a price needs"),
        ({"settings": keff.Settings(), "now": 8}, "leave out now"),
    ],
)
def test_keywords_that_mean_nothing_are_one_sentence(words: dict[str, Any], said: str) -> None:
    with pytest.raises(keff.KeffError, match=said):
        keff.analyze(answers(), **GOLD, **words)


def test_branches_are_mixed_as_on_the_command_line(tmp_path: Path) -> None:
    files = [tmp_path / "small.jsonl", tmp_path / "large.jsonl"]
    for seed, (file, level) in enumerate(zip(files, (0.5, 0.8), strict=True)):
        rows = enumerate(answers(seed=seed, level=level))
        lines = ({"id": str(i), "gold_answer": "4", "all_answers": row} for i, row in rows)
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    mixed = keff.mix(*files, cap=8, cost_per_path=0.01, value_per_correct=1.0)
    options = ["--cap", 8, "--cost-per-path", 0.01, "--value-per-correct", 1.0]
    assert mixed.to_dict() == json.loads(command_line.keff("mix", *files, *options, "--json").stdout)
    with pytest.raises(keff.KeffError, match="needs prices"):
        keff.mix(*files, budget_dollars=0.1)
    assert "--max-loss 2" in command_line.keff("mix", *files, "--tolerance", 0.02).stderr
    with pytest.raises(keff.KeffError, match="max_loss"):
        keff.mix(*files, tolerance=0.02)  # pyright: ignore[reportCallIssue]
    with pytest.raises(keff.KeffError):
        keff.mix(files[0])
