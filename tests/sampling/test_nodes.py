"""A run drawn in parts on two nodes, each with a store of its own: merged it is the plain run."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import keff
from keff import plugins
from keff.analysis.estimates import Settings, analyze
from keff.cli._sampling import SampleOptions, on_cluster
from keff.engine import Engine
from keff.errors import EngineError, UsageError
from keff.reading.open import Opening
from keff.reading.several import open_records
from keff.records import Sampling
from keff.sampling.job import Job, execute, parse_shard
from keff.sampling.manifest import Manifest
from keff.sampling.sampler import Order, Progress
from keff.sampling.store import DATABASE, Run


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A cluster of two nodes of one processor each on this machine."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'keff[ray]', or make test-integration")
    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    import ray
    from ray.cluster_utils import Cluster

    size: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 100 << 20}
    cluster = Cluster(initialize_head=True, head_node_args=size)
    cluster.second = cluster.add_node(**size)
    ray.init(cluster.address, log_to_driver=False, logging_level="error")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def job(folder: Path, engine: Engine, run: str, parts: int | None = None, **order: Any) -> Job:
    data = folder / "questions.jsonl"
    rows = ({"id": f"q{i}", "question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(40))
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = plugins.load("task", "jsonl", data=str(data))
    shard = (1, 1) if parts is None else (0, parts)
    drawn = Order(Sampling(seed=3), 4, backoff=0.01, **order)
    whole = Job(task, engine, folder / run, drawn, 40)
    return Job(task, engine, folder / run, drawn, 40, shard, chosen=whole.items())


def held(run: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return all rows of a run, in the order of their keys."""
    with closing(sqlite3.connect(run / DATABASE)) as database, database:
        return {
            name: database.execute(f"select * from {name} order by 1, 2, 3, 4").fetchall()
            for name in ("items", "paths", "scores")
        }


@pytest.mark.integration
def test_a_run_in_parts_on_two_nodes_is_the_plain_run_though_one_is_killed(
    tmp_path: Path, nodes: Any
) -> None:
    from keff.sampling.nodes import draw_on_nodes

    asyncio.run(execute(job(tmp_path, plugins.load("engine", "fake", max_n=2), "plain")))
    seen: list[int] = []

    def kill_once(progress: Progress) -> None:
        if not seen:
            nodes.remove_node(nodes.second, allow_graceful=False)
        seen.append(progress.done)

    engine = on_cluster("ray", None, "fake", {"max_n": 2, "latency": 0.05})
    drawn = asyncio.run(draw_on_nodes(job(tmp_path, engine, "nodes", 4, concurrency=1), kill_once))
    assert (drawn.total, drawn.items, drawn.kept, drawn.done) == (160, 40, 0, 160)
    assert seen == [40, 80, 120, 160]
    plain, merged = held(tmp_path / "plain"), held(tmp_path / "nodes")
    seconds = 15  # the place of the wall time of a path
    for name, rows in plain.items():
        cut = slice(0, seconds) if name == "paths" else slice(None)
        assert [row[cut] for row in merged[name]] == [row[cut] for row in rows], name
    assert Manifest.read(tmp_path / "nodes").fingerprint == Manifest.read(tmp_path / "plain").fingerprint

    resumed = asyncio.run(draw_on_nodes(job(tmp_path, engine, "nodes", 3), lambda _: None))
    assert (resumed.items, resumed.kept, resumed.done) == (40, 160, 0)
    limited = job(tmp_path, engine, "limited", 8, halt=lambda progress: "enough" if progress.done else None)
    stopped = asyncio.run(draw_on_nodes(limited, lambda _: None))
    assert stopped.stopped == "enough" and stopped.done == 20
    with pytest.raises(EngineError, match="requests failed in a row"):
        asyncio.run(
            draw_on_nodes(job(tmp_path, on_cluster("ray", None, "fake", {"fail": 1.0}), "bad", 2), print)
        )


@pytest.mark.integration
def test_a_record_read_on_two_nodes_is_that_of_one_process_though_one_is_killed(
    tmp_path: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray
    from pyarrow import Table, array
    from pyarrow.parquet import write_table

    rng, n, lost = np.random.default_rng(4), 300, nodes.add_node(num_cpus=1, object_store_memory=100 << 20)
    for number in range(4):
        rows = {"id": [f"q{number}-{place}" for place in range(n)], "gold_answer": ["1"] * n}
        rows |= {"cluster": [f"c{place % 250}" for place in range(n)]}
        rows |= {"all_answers": rng.choice(list("1234"), (n, 8), p=(0.5, 0.3, 0.1, 0.1)).tolist()}
        rows["gold_answer"][::7] = [None] * len(rows["gold_answer"][::7])
        rows |= {"all_correct": rng.integers(0, 2, (n, 8)).tolist()}
        rows |= {"all_tokens": rng.integers(1, 99, (n, 8)).tolist()}
        table = Table.from_pydict({name: array(values) for name, values in rows.items()})
        write_table(table, tmp_path / f"part{number}.parquet", row_group_size=n // 3)
    given, path = ray.get, tmp_path / "*.parquet"

    def kill_once(task: object) -> object:
        """Kill a node when the first share is there."""
        monkeypatch.setattr(ray, "get", given)
        found = given(task)
        nodes.remove_node(lost, allow_graceful=False)
        return found

    monkeypatch.setattr(ray, "get", kill_once)
    (counted,), (plain,) = (
        open_records(path, Opening(on=on, answer_space="numeric", rescore=True)) for on in ("ray", None)
    )
    assert ray.get is given
    assert counted.ballot.votes.n == 4 * n and list(counted.ballot.names) == list(plain.ballot.names)
    for name in ("answers", "correct", "clusters", "tokens"):
        np.testing.assert_array_equal(*(getattr(each.ballot.votes, name) for each in (counted, plain)), name)
    assert counted.ballot.notes == plain.ballot.notes
    assert analyze(counted, Settings()).to_dict() == analyze(plain, Settings()).to_dict()
    page = tmp_path / "page.html"
    for command, *options in (("replay", "--policy", "lead_k:2,cap=8"), ("report", "-o", page)):
        # Ray says on lines of its own, whenever it learns of it, that a node was lost.
        said = [
            keff(command, path, *options, *on, "--json").stdout.splitlines()[-1]
            for on in ([], ["--on", "ray"])
        ]
        assert said[0] == said[1], command
    (tmp_path / "ragged.jsonl").write_text('{"id": "q", "gold_answer": "1", "all_answers": ["1", "2"]}\n')
    with pytest.raises(UsageError, match="--on reads Parquet with one row per question"):
        open_records(tmp_path / "ragged.jsonl", Opening(on="ray"))


def test_stores_of_parts_merge_into_the_run_that_one_process_draws(tmp_path: Path) -> None:
    """Parts that overlap, are merged twice, and in any order."""
    engine = plugins.load("engine", "fake")
    plain = job(tmp_path, engine, "plain")
    asyncio.run(execute(plain))
    items = plain.items()
    for number, part in enumerate((items[25:], items[:15], items[10:30])):
        asyncio.run(execute(Job(plain.task, engine, tmp_path / str(number), plain.order, chosen=part)))
    config = Manifest.read(tmp_path / "plain").config
    with Run.write(tmp_path / "merged", config, n=40, k=4) as run:
        run.put_items(items)
        for number in (0, 2, 2, 1):
            with Run.open(tmp_path / str(number)) as other:
                run.insert(other.tables())
    assert held(tmp_path / "merged") == held(tmp_path / "plain")


def test_all_parts_need_a_cluster(tmp_path: Path) -> None:
    assert parse_shard("4") == (0, 4)
    wishes = SampleOptions(task=str(tmp_path / "x.jsonl"), run=tmp_path / "run", engine="fake", shard="4")
    (tmp_path / "x.jsonl").write_text('{"id": "q", "question": "1 + 1?", "answer": "2"}\n')
    with pytest.raises(UsageError, match="--shard 4: write i/m, or add --on ray"):
        wishes.job()
