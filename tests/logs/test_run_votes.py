"""The votes of a run are what was stored of its paths, or the run is refused."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from benchmarks.logs.log_bases import unsealed
from keff import plugins
from keff.errors import KeffError
from keff.logs.run import RunLog
from keff.reading.open import Opening, open_record
from keff.records import Sampling
from keff.sampling.job import Job, execute
from keff.sampling.orders import Order
from keff.sampling.store import ANSWER, DATABASE, Run

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


ORDERS = {
    "one prompt": Order(Sampling(max_tokens=12), 5, backoff=0.001),
    "templates": Order(Sampling(max_tokens=12), 7, (2, 0, 1), backoff=0.001),
}


def test_answers_log_probabilities_are_no_ratings(tmp_path: Path) -> None:
    path = sampled(tmp_path, ORDERS["templates"])
    with Run.edit(path) as run:
        for item in run.items():
            kept = [one.path for one in run.kept(item.id) if one.path.index % 2]
            run.add_ratings([(one, -0.25 * one.index - one.slot, 0.0) for one in kept], ANSWER)
    votes = open_record(path).ballot.votes
    assert votes.confidences is not None and votes.confidences.max() < 0
    found = votes.named[ANSWER]
    paths, slots = np.divmod(np.arange(7), 3)
    order = np.array([2, 0, 1])[slots]
    np.testing.assert_array_equal(found, [np.where(paths % 2, -0.25 * paths - order, np.nan)] * len(found))


def test_a_run_of_an_older_version_has_no_place_for_confidences(tmp_path: Path) -> None:
    path = sampled(tmp_path, ORDERS["one prompt"])
    unsealed(path)
    with closing(sqlite3.connect(path / DATABASE)) as database:
        database.execute("drop table confidences")
    assert set(open_record(path).ballot.votes.named) == {"logprob_bottom", "logprob_total"}
    assert not RunLog().info(path).missing


@pytest.mark.parametrize("name", ORDERS)
def test_a_run_is_read_as_it_was_stored(tmp_path: Path, name: str) -> None:
    path = sampled(tmp_path, ORDERS[name], fail=0.2, refuse=0.1, latency=0.001)
    record = open_record(path, Opening(texts=True))
    with Run.open(path) as run:
        kept = {item.id: run.kept(item.id) for item in run.items()}
    order = {slot: place for place, slot in enumerate(ORDERS[name].slots)}
    votes = record.ballot.votes
    assert votes.tokens is not None and votes.confidences is not None
    for row, question in enumerate(record.ballot.questions):
        paths = sorted(kept[question.id], key=lambda one: (one.path.index, order[one.path.slot]))
        judged = [one.judged for one in paths if one.judged is not None]
        assert record.ballot.keys[row] == tuple(each.key for each in judged)[: votes.k]
        assert question.texts == tuple(one.completion.text for one in paths)
        assert votes.tokens[row].tolist() == [one.completion.tokens for one in paths][: votes.k]
        assert votes.scored()[row].tolist() == [each.correct or 0 for each in judged][: votes.k]
        # A path that was refused has no log-probability, and takes none from the others.
        means = [one.completion.logprobs and one.completion.logprobs.mean for one in paths][: votes.k]
        np.testing.assert_equal(votes.confidences[row], [np.nan if x is None else x for x in means])
    assert np.isnan(votes.confidences).any() and np.isfinite(votes.confidences).any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "column"),
    [("items", "meta"), ("items", "gold"), ("items", "cluster"), ("paths", "tokens"), ("paths", "item")],
)
@pytest.mark.parametrize("value", [None, b"\xff", 2**40, "x"], ids=["null", "bytes", "large", "text"])
def test_a_value_of_a_wrong_kind_is_refused_in_one_line_or_changes_one_question(
    table: str, column: str, value: object, tmp_path: Path
) -> None:
    run = sampled(tmp_path, ORDERS["one prompt"])
    before = open_record(run).ballot
    whole = dict(zip(before.names, before.keys, strict=True))
    unsealed(run)
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

    try:
        after = open_record(run).ballot
    except KeffError as error:
        assert "\n" not in str(error)
    else:
        changed = [name for name, keys in zip(after.names, after.keys, strict=True) if whole[name] != keys]
        assert len(changed) <= 1
