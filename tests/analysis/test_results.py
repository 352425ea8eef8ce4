"""Results are what --json prints: every field, in order, null where undefined; and they show themselves."""

from __future__ import annotations

import importlib.util
import json
import math
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keff.analysis.arms import Comparing, compare, compare_all
from keff.analysis.audit import audit
from keff.analysis.combine import combine_record
from keff.analysis.decision import Aim
from keff.analysis.estimates import Settings, analyze
from keff.analysis.gate import Gating, gate
from keff.analysis.predict import predict
from keff.analysis.replay import Replaying, replay
from keff.analysis.results.estimates import Analysis
from keff.analysis.scores import noise
from keff.errors import UsageError
from keff.log import LogInfo, Question
from keff.reading.ballot import Reading, ballot
from keff.reading.open import Record
from keff.reading.repeated import of_record, of_rows
from keff.records import Finding, Interval, plain

pytestmark = pytest.mark.slow

REPO = Path(__file__).resolve().parents[2]
EXACT = Reading(lambda answer: answer, lambda answer, gold: answer == gold)


def record(
    n: int = 24, k: int = 6, *, gold: bool = True, scores: bool = False, slots: bool = False
) -> Record:
    rng = np.random.default_rng(0)
    right = rng.random((n, k)) < rng.beta(1.2, 0.8, (n, 1))
    questions = [
        Question(
            f"<b>{i}</b>",
            tuple(None if scores else "r" if good else "w" for good in row),
            gold="r" if gold else None,
            correct=tuple(map(int, row)) if scores else None,
            slots=tuple(range(k)) if slots else None,
            form="scores" if scores else "answers",
        )
        for i, row in enumerate(right)
    ]
    return Record("<i>log</i>", LogInfo(), ballot(questions, EXACT))


def schemas() -> Any:
    spec = importlib.util.spec_from_file_location("write_schemas", REPO / "scripts" / "write_schemas.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


QUICK = Comparing(replicates=100)
POLICIES = ["fixed:3", "adaptive_k:cap=6"]
REPLAYED = Replaying(cap=6)
AIMED = Settings(k_max=8, aim=Aim(value_per_correct=1.0, cost_per_path=0.01))


def findings() -> list[tuple[str, Finding]]:
    """Return results of every kind, of records that have everything and of records that lack something."""
    whole, blind, graded, one = record(), record(gold=False), record(scores=True), record(k=1)
    rng = np.random.default_rng(0)
    return [
        ("analyze", analyze(whole, Settings(k_max=16))),
        ("analyze", analyze(whole, AIMED)),
        ("analyze", analyze(blind, Settings(k_max=8))),
        ("analyze", analyze(graded, Settings(k_max=8))),
        ("analyze", analyze(one, Settings(k_max=8))),
        ("replay", replay(whole.ballot.votes, POLICIES, rng, REPLAYED)),
        ("replay", replay(blind.ballot.votes, ["fixed:3"], rng, REPLAYED)),
        ("noise", noise(of_record(whole))),
        ("noise", noise(of_record(one))),
        ("noise", noise(of_rows([[0.5, 1], [0.25]] * 9))),
        ("compare", compare(whole, record(slots=True), QUICK)),
        ("compare", compare(graded, graded, QUICK)),
        ("compare", compare_all([of_record(one), of_record(one), of_record(whole)], 2)),
        ("compare", gate([of_record(whole)], [of_record(one)], Gating(5))),
        ("compare", gate([of_rows([[0.5, 1], [0.25]] * 9)], [of_rows([[1, 1], [0.5]] * 9)], Gating(5))),
        ("audit", audit([whole, record(slots=True)])),
        ("combine", combine_record(record(slots=True))),
        ("combine", combine_record(whole, embeddings=np.random.default_rng(1).normal(size=(24, 6, 8)))),
        ("predict", predict(0.6, 0.3, 8)),
        ("predict", predict(0.6, -0.05, 8)),
    ]


@pytest.fixture(scope="module")
def made() -> list[tuple[str, Finding]]:
    return findings()


def test_every_result_is_valid_under_its_schema(made: list[tuple[str, Finding]]) -> None:
    validator = pytest.importorskip("jsonschema").Draft202012Validator
    script = schemas()
    told = set[str]()
    for command, result in made:
        shape = script.schema(command)
        valid = validator(shape)
        printed = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        valid.validate(printed)
        if command in told:
            continue  # what the schema requires was seen with the first result of its kind
        told.add(command)
        validator.check_schema(shape)
        for name in printed:
            less = {other: value for other, value in printed.items() if other != name}
            assert not valid.is_valid(less), f"{command} without {name}"
        assert not valid.is_valid(printed | {"more": 1})
    runs = {"runs": [{"path": "x", **made[0][1].to_dict()}] * 2}
    validator(script.schema("analyze")).validate(runs)
    assert not validator(script.schema("analyze")).is_valid({"runs": [made[0][1].to_dict()]})


def test_the_schemas_in_the_documentation_are_those_of_the_types() -> None:
    for file, text in schemas().pages().items():
        assert file.read_text("utf-8") == text, "run python scripts/write_schemas.py"


def test_fields_are_all_there_in_their_order_whatever_a_record_lacks(made: list[tuple[str, Finding]]) -> None:
    for _, result in made:
        assert list(result.to_dict()) == [field.name for field in fields(result)]
    blind = analyze(record(gold=False), Settings(k_max=8)).to_dict()
    assert blind["c_anova"] is blind["c"] is blind["majority"] is blind["bands"] is None
    assert blind["agreement"] is not None


def test_numbers_are_those_of_the_attributes() -> None:
    found = analyze(record(), Settings(k_max=16))
    printed: Any = found.to_dict()
    assert found.c is not None and found.k_eff is not None and found.majority is not None
    assert printed["c"] == {
        "value": found.c.value,
        "lo": found.c.lo,
        "hi": found.c.hi,
        "method": found.c.method,
    }
    assert printed["majority"] == {str(k): value for k, value in found.majority.items()}
    assert found.bands is not None
    assert printed["bands"]["majority"]["3"] == list(found.bands.majority[3])
    assert found.k_eff.method == f"from c ({found.c.method})" == printed["ceiling"]["method"]


def test_each_result_is_told_in_one_line_and_shown_as_a_table(made: list[tuple[str, Finding]]) -> None:
    for _, result in made:
        line, shown = repr(result), result._repr_html_()
        assert "\n" not in line
        assert len(line) < 300
        assert line.startswith(f"<{type(result).__name__}: ")
        assert shown.count("<table>") == shown.count("</table>") == 1
        assert "<i>" not in shown, "text of a record must be escaped"
        cells = {len(row) for row in result.rows()}
        assert len(cells) == 1


def test_a_result_cannot_be_changed() -> None:
    found = predict(0.6, 0.3, 8)
    with pytest.raises(FrozenInstanceError):
        found.p = 0.7  # type: ignore[misc]
    assert not hasattr(found, "__dict__")


def test_a_replay_is_asked_by_policy() -> None:
    found = replay(record().ballot.votes, ["fixed:3"], np.random.default_rng(0), REPLAYED)
    assert found["fixed:3"].mean_paths == 3
    with pytest.raises(KeyError, match="there are fixed:3"):
        found["fixed:4"]


def test_the_calculator_refuses_what_cannot_be() -> None:
    with pytest.raises(UsageError):
        predict(0.6, 1.2, 8)


@pytest.mark.parametrize(
    ("value", "json_value"),
    [
        (math.nan, None),
        (-math.inf, None),
        (np.float64(0.5), 0.5),
        (Interval(math.nan, None, math.inf, "m"), {"value": None, "lo": None, "hi": None, "method": "m"}),
        ({1: (0.5, True)}, {"1": [0.5, True]}),
        (Path("a/b"), "a/b"),
    ],
)
def test_values_become_json(value: object, json_value: object) -> None:
    assert plain(value) == json_value
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == json_value


@pytest.mark.parametrize("value", [np.arange(3), {1, 2}, object(), np.int64(3)])
def test_what_json_cannot_hold_is_not_guessed(value: object) -> None:
    with pytest.raises(TypeError, match="JSON cannot hold"):
        plain(value)


def test_an_interval_tells_itself() -> None:
    assert Interval(0.4, 0.3, 0.5, "m").text() == "0.40 [0.30, 0.50]"
    assert Interval(0.4, 0.3, 0.5, "m").percent() == "40.0% [30.0, 50.0]"
    assert Interval(math.inf, 2.0, math.inf, "m").text() == "∞ [2.00, ∞]"
    assert Interval(math.nan, None, None, "m").text() == Interval(math.nan, 0.1, 0.2, "m").percent() == "–"
    assert Interval(0.4, None, None, "m").text(".1f") == "0.4"


def test_without_gold_answers_the_cap_is_the_default() -> None:
    found: Analysis = analyze(record(gold=False), Settings())
    assert found.cap == 32
