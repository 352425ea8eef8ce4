"""A judge joins answers by meaning: both orders, cached, costed, and its error is measured."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from command_line import keff
from keff import plugins
from keff.engine import Capabilities
from keff.errors import LogError, UsageError
from keff.reading.judge import JudgedRecord, Pair, judge_record, read_pairs, read_verdict
from keff.reading.open import Opening, open_record
from keff.records import Completion, Message, Sampling

ANSWERS = {
    "q1": ["two days", "2 days", "In 2 days", "a week"],
    "q2": ["a week", "7 days", "it never arrives", "one week"],
}
MEANING = {"two days": 2, "2 days": 2, "In 2 days": 2, "a week": 7, "7 days": 7, "one week": 7}


def judged_now(*given: Any, **options: Any) -> JudgedRecord:
    """Judge a record."""
    return asyncio.run(judge_record(*given, **options))


class Oracle:
    """An engine that knows what answers mean; where asked to, it errs when a text comes first."""

    name, local, needs_gpu = "oracle", True, False
    capabilities = Capabilities(1, 4)

    def __init__(self, biased: str = "") -> None:
        self.biased, self.calls = biased, 0

    async def start(self) -> None:
        """Nothing to load."""

    def identity(self) -> dict[str, Any]:
        return {"engine": "oracle", "biased": self.biased}

    async def generate(self, messages: Sequence[Message], sampling: Sampling, n: int) -> list[Completion]:
        self.calls += 1
        assert (sampling.temperature, n) == (0.0, 1)
        first, second = re.findall(
            r"<<<ANSWER \d>>>\n(.*?)\n<<<END>>>", str(messages[0]["content"]), re.DOTALL
        )
        same = MEANING.get(first, first) == MEANING.get(second, second) or first == self.biased
        return [Completion("Same." if same else "different", tokens=1, prompt_tokens=100)]

    async def close(self) -> None:
        """Nothing to release."""


def record(folder: Path, **more: object) -> Path:
    rows = [{"id": name, "question": "When?", "all_answers": row, **more} for name, row in ANSWERS.items()]
    file = folder / "log.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def opened(file: Path) -> Any:
    return open_record(file, Opening(answer_space="text"))


def test_answers_of_one_meaning_have_one_key(tmp_path: Path) -> None:
    file, out, engine = record(tmp_path, gold_answer="7 days"), tmp_path / "judged.jsonl", Oracle()
    judged = judged_now(opened(file), engine, tmp_path / "cache.jsonl", out=out)
    assert (judged.distinct, judged.clusters, judged.flips, judged.unread) == (8, 4, 0, 0)
    again = open_record(out)
    codes = again.ballot.votes.answers
    assert codes is not None
    assert codes.tolist() == [[0, 0, 0, 1], [0, 0, 1, 0]]
    # Right is what means the same as the gold answer.
    assert again.ballot.votes.scored().tolist() == [[0, 0, 0, 1], [1, 1, 0, 1]]
    assert judged.agreement == (0.0, pytest.approx((6 / 12 + 6 / 12) / 2))


def test_every_verdict_is_asked_once_and_counted(tmp_path: Path) -> None:
    file, engine = record(tmp_path), Oracle()
    first = judged_now(opened(file), engine, tmp_path / "cache.jsonl")
    assert first.spent.calls == engine.calls == 2 * first.pairs
    assert (first.spent.tokens, first.spent.prompt_tokens) == (engine.calls, 100 * engine.calls)
    second = judged_now(opened(file), engine, tmp_path / "cache.jsonl")
    assert (second.spent.calls, second.spent.cached) == (0, first.spent.calls)
    assert second.clusters == first.clusters
    # Another engine, or the same with other settings, is another judge.
    assert judged_now(opened(file), Oracle("a week"), tmp_path / "cache.jsonl").spent.calls > 0


def test_a_verdict_that_depends_on_the_order_joins_nothing(tmp_path: Path) -> None:
    judged = judged_now(opened(record(tmp_path)), Oracle("it never arrives"), tmp_path / "c.jsonl")
    assert judged.flips > 0
    assert judged.clusters == 4


def test_too_many_requests_end_with_what_to_do_and_keep_what_was_said(tmp_path: Path) -> None:
    file, engine = record(tmp_path), Oracle()
    with pytest.raises(UsageError, match="--most-calls"):
        judged_now(opened(file), engine, tmp_path / "c.jsonl", most_calls=5)
    assert engine.calls == 5
    assert judged_now(opened(file), engine, tmp_path / "c.jsonl").spent.cached >= 4


def test_the_error_is_that_of_labelled_pairs(tmp_path: Path) -> None:
    pairs = [Pair("2 days", "two days", True)] * 5 + [Pair("a week", "2 days", False)] * 4
    pairs += [Pair("a week", "7 days", False), Pair("2 days", "nine", True)]
    measured = judged_now(opened(record(tmp_path)), Oracle(), tmp_path / "c.jsonl", pairs=pairs).reliability
    assert measured is not None
    assert measured.pairs == 11
    assert measured.error.value == pytest.approx(2 / 11)
    assert measured.joined is not None
    assert measured.split is not None
    assert measured.joined.value == pytest.approx(1 / 5)
    # Clopper and Pearson's limits for 1 of 5 and 1 of 6, from their tables.
    assert measured.joined.limits == pytest.approx((0.0051, 0.7164), abs=1e-4)
    assert measured.split.limits == pytest.approx((0.0042, 0.6412), abs=1e-4)


def test_recorded_scores_measure_the_judge_where_no_pairs_are_given(tmp_path: Path) -> None:
    file = record(tmp_path, gold_answer="7 days", all_correct=[0, 0, 0, 1])
    judged = judged_now(opened(file), Oracle(), tmp_path / "c.jsonl")
    assert judged.reliability is not None
    # q1 is scored as the judge would; of q2, "a week" and "7 days" are scored wrong, and it joins them.
    assert judged.reliability.error.value == pytest.approx(2 / 8)
    assert judged.labels == "recorded scores against gold answers"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("same", "same"),
        ("Different.", "different"),
        ("<think>same? no</think>different", "different"),
        ("They are not the same", "different"),
        ("Not same: different", "different"),
        ("At first sight different, but the same.", "same"),
        ("I cannot say", "unread"),
        ("", "unread"),
    ],
)
def test_replies_are_read(text: str, said: str) -> None:
    assert read_verdict(text) == said


def test_pairs_are_read_and_bad_ones_named(tmp_path: Path) -> None:
    table = tmp_path / "pairs.csv"
    table.write_text("a,b,same,question\nx,y,1,?\nx,z,different,\n")
    assert read_pairs(table) == [Pair("x", "y", True, "?"), Pair("x", "z", False)]
    table.write_text("a,b,same\nx,y,maybe\n")
    with pytest.raises(LogError, match=r"pairs\.csv:2: same must be 1 or 0, not 'maybe'"):
        read_pairs(table)
    table.write_text("a,b\n")
    with pytest.raises(LogError, match="no pairs"):
        read_pairs(table)


def test_the_command_judges_with_any_engine_and_says_what_it_cost(tmp_path: Path) -> None:
    file, pairs = record(tmp_path), tmp_path / "pairs.jsonl"
    pairs.write_text(json.dumps({"a": "x", "b": "y", "same": 0}) + "\n")
    prices = tmp_path / "prices.toml"
    prices.write_text('["fake"]\nprompt = 1.0\noutput = 2.0\n')
    out = tmp_path / "out.jsonl"
    done = keff(
        "read", file, "--judge", "fake", "--model", "fake", "--pairs", pairs, "--prices", prices, "-o", out
    )
    assert done.returncode == 0, done.stderr
    # The fake engine says neither, so nothing is joined, and that is said.
    assert "have 8 meanings" in done.stdout
    assert "requests" in done.stdout
    assert "$" in done.stdout
    assert "errs on 0.0% [0.0, 97.5] of 1 labelled pairs" in done.stdout
    assert keff("analyze", out).returncode == 0
    said = keff("read", file, "--judge", "fake", "--model", "fake", "--json")
    assert json.loads(said.stdout)["spent"]["calls"] == 0
    assert keff("read", file, "--pairs", pairs).returncode == 2


@pytest.mark.integration
def test_a_real_model_judges_and_its_error_is_measured(tmp_path: Path, smollm2: Path) -> None:
    pytest.importorskip("xllamacpp")
    engine = plugins.load("engine", "llamacpp", model=str(smollm2))
    pairs = [Pair("2 days", "two days", True)]
    file = tmp_path / "log.jsonl"
    file.write_text(json.dumps({"id": "q1", "all_answers": ["2 days", "two days"]}) + "\n")
    judged = judged_now(opened(file), engine, tmp_path / "c.jsonl", pairs=pairs, max_tokens=4)
    assert judged.reliability is not None
    assert 0 <= judged.reliability.error.value <= 1
    assert judged.spent.calls > 0
    assert judged.spent.tokens > 0
