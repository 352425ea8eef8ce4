"""A run read by columns is the run read question by question."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from keff import plugins
from keff.errors import KeffError
from keff.log import find_log
from keff.logs.parts.bulk import ColumnOptions, PartsLog, only_part
from keff.logs.run import RunLog
from keff.policy import parse_policy
from keff.reading.open import Opening, Record, open_record
from keff.records import Sampling
from keff.sampling.job import Job, execute
from keff.sampling.orders import Order
from keff.sampling.store import ANSWER, DATABASE, Run
from keff.stats.votes import Votes

TEMPLATES = 'templates = ["Think.", "Be brief.", "Check twice."]'


def sampled(folder: Path, order: Order, *, gold: bool = True, **engine: object) -> Path:
    file = folder / "questions.jsonl"
    rows = [{"id": f"q{i}", "question": f"What is {i} + 1?", "cluster": f"c{i // 2}"} for i in range(24)]
    file.write_text(
        "".join(
            json.dumps(row | ({"answer": str(i + 1)} if gold else {})) + "\n" for i, row in enumerate(rows)
        )
    )
    (folder / "t.toml").write_text(TEMPLATES)
    task = plugins.load(
        "task", "jsonl", data=str(file), template=str(folder / "t.toml"), answer_space="numeric"
    )
    made = plugins.load("engine", "fake", **{"p": 0.5, "c": 0.2, "tokens": 9, **engine})
    options = {"name": "jsonl", "data": str(file), "answer_space": "numeric"}
    asyncio.run(execute(Job(task, made, folder / "run", order, options=options)))
    return folder / "run"


def both(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Record, Record]:
    quick = open_record(path, Opening(texts=True))
    with monkeypatch.context() as patch:
        patch.setattr(RunLog, "parts", lambda *_, **__: iter(()))
        return quick, open_record(path, Opening(texts=True))


ORDERS = {
    "one prompt": Order(Sampling(max_tokens=12), 5, backoff=0.001),
    "templates": Order(Sampling(max_tokens=12), 7, (2, 0, 1), backoff=0.001),
}


def test_answers_log_probabilities_are_read_alike_and_are_no_ratings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sampled(tmp_path, ORDERS["templates"])
    with Run.edit(path) as run:
        for item in run.items():
            kept = [one.path for one in run.kept(item.id) if one.path.index % 2]
            run.add_ratings([(one, -0.25 * one.index - one.slot, 0.0) for one in kept], ANSWER)
    quick, slow = (record.ballot.votes for record in both(path, monkeypatch))
    assert quick.confidences is not None and quick.confidences.max() < 0
    found = quick.named[ANSWER]
    np.testing.assert_array_equal(found, slow.named[ANSWER])
    paths, slots = np.divmod(np.arange(7), 3)
    order = np.array([2, 0, 1])[slots]
    np.testing.assert_array_equal(found, [np.where(paths % 2, -0.25 * paths - order, np.nan)] * len(found))


def test_a_run_of_an_older_version_has_no_place_for_confidences(tmp_path: Path) -> None:
    path = sampled(tmp_path, ORDERS["one prompt"])
    with closing(sqlite3.connect(path / DATABASE)) as database:
        database.execute("drop table confidences")
    assert set(open_record(path).ballot.votes.named) == {"logprob_bottom", "logprob_total"}
    assert not RunLog().info(path).missing


@pytest.mark.parametrize(("gold", "refuse"), [(True, 0.1), (False, 0.0)])
@pytest.mark.parametrize("name", ORDERS)
def test_columns_are_what_questions_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, gold: bool, refuse: float
) -> None:
    path = sampled(tmp_path, ORDERS[name], gold=gold, fail=0.2, refuse=refuse, latency=0.001)
    assert isinstance(log := find_log(path), PartsLog)
    assert only_part(log.parts(path, ColumnOptions())) is not None
    monkeypatch.setattr("keff.reading.open.PATHS_OF_A_PART", 40 * 64)
    quick, slow = both(path, monkeypatch)
    confidences = quick.ballot.votes.confidences
    # A path that was refused has none, and takes none from the others.
    assert confidences is not None and np.isnan(confidences).any() == (refuse > 0)
    assert np.isfinite(confidences).any()
    for field in dataclasses.fields(Votes):
        mine, other = getattr(quick.ballot.votes, field.name), getattr(slow.ballot.votes, field.name)
        if field.name in ("named", "confidences"):
            np.testing.assert_equal(mine, other)
        else:
            assert np.array_equal(mine, other), field.name
    assert list(quick.ballot.keys) == list(slow.ballot.keys)
    assert list(quick.ballot.questions) == list(slow.ballot.questions)
    assert quick.info == slow.info
    assert quick.ballot.notes == slow.ballot.notes


def test_a_run_with_paths_that_are_not_scored_is_read_question_by_question(tmp_path: Path) -> None:
    path = sampled(tmp_path, ORDERS["one prompt"])
    database = sqlite3.connect(path / DATABASE)
    with database:
        database.execute("delete from scores where item = 'q3' and path = 1")
    database.close()
    assert only_part(RunLog().parts(path, ColumnOptions())) is None
    assert open_record(path).ballot.votes.n == 24


def test_a_run_that_a_policy_stopped_is_read_question_by_question(tmp_path: Path) -> None:
    order = replace(ORDERS["one prompt"], policy=parse_policy("lead_k:2,cap=5"))
    assert only_part(RunLog().parts(sampled(tmp_path, order), ColumnOptions())) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "column"),
    [("items", "meta"), ("items", "gold"), ("items", "cluster"), ("paths", "tokens"), ("paths", "item")],
)
@pytest.mark.parametrize("value", [None, b"\xff", 2**40, "x"], ids=["null", "bytes", "large", "text"])
def test_values_of_a_wrong_kind_are_read_as_question_by_question(
    table: str, column: str, value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sampled(tmp_path, ORDERS["one prompt"])
    with closing(sqlite3.connect(run / DATABASE)) as database, database:
        for trigger in ("paths_keep", "paths_stay"):
            database.execute(f"drop trigger {trigger}")
        # A damaged page holds what the schema forbids.
        database.execute("pragma writable_schema = on")
        database.execute(
            "update sqlite_master set sql = replace(replace(sql, ') strict', ')'), ' not null', '') "
            "where type = 'table'"
        )
    with closing(sqlite3.connect(run / DATABASE)) as database, database:
        database.execute(f"update {table} set {column} = ? where rowid = 3", [value])

    def outcome() -> object:
        try:
            return list(open_record(run, Opening()).ballot.keys)
        except KeffError as error:
            return str(error)

    quick = outcome()
    monkeypatch.setattr(RunLog, "parts", lambda *_, **__: iter(()))
    assert outcome() == quick
