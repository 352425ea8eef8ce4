"""Sampling on a local Ray.

The same records as without it, real model workers, and workers that are killed.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fault_server import Script, running
from keff import plugins
from keff.cli._sampling import SampleOptions, on_cluster
from keff.engine import Engine
from keff.errors import EngineError, PluginError, UsageError
from keff.records import Sampling
from keff.sampling.job import Job, execute
from keff.sampling.manifest import Manifest
from keff.sampling.pool import draw_all
from keff.sampling.sampler import OnProgress, Order, Progress
from keff.sampling.store import DATABASE

pytestmark = pytest.mark.integration

CORES = 2


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A Ray of two cores on this machine; gives its address."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'keff[ray]', or make test-integration")
    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    import ray

    size = {"num_cpus": CORES, "object_store_memory": 200 << 20}
    ray.init("local", include_dashboard=False, log_to_driver=False, logging_level="error", **size)
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


def questions(folder: Path, n: int = 40) -> Path:
    file = folder / "questions.jsonl"
    rows = ({"id": f"q{i}", "question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(n))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def on_ray(name: str = "fake", workers: int = CORES, **options: Any) -> Any:
    return on_cluster("ray", workers, name, options)


def draw(
    folder: Path, engine: Engine, run: str = "run", watch: OnProgress | None = None, n: int = 20
) -> Progress:
    task = plugins.load("task", "jsonl", data=str(questions(folder)))
    order = Order(Sampling(seed=3), 8, backoff=0.01)
    return asyncio.run(execute(Job(task, engine, folder / run, order, n), watch))


def rows(run: Path, where: str = "true") -> list[tuple[Any, ...]]:
    # Read-only: looking for a file that is not there yet must not create it.
    with closing(sqlite3.connect(f"file:{run / DATABASE}?mode=ro", uri=True)) as database:
        return database.execute(
            f"select * from paths where {where} order by item, slot, path, attempt"
        ).fetchall()


def paths_of(run: Path) -> list[tuple[Any, ...]]:
    """Return item, slot, index, seed and text of the kept paths of a run."""
    return [(*row[:3], *row[4:6]) for row in rows(run, "error is null")]


def count(run: Path) -> int:
    try:
        return len(rows(run))
    except sqlite3.OperationalError:
        return 0


@pytest.mark.usefixtures("address")
def test_a_run_on_ray_has_the_same_records_as_a_plain_one(tmp_path: Path) -> None:
    options = {"p": 0.6, "c": 0.3, "max_n": 3}
    assert draw(tmp_path, plugins.load("engine", "fake", **options), "plain").done == 160
    assert draw(tmp_path, on_ray(**options), "cluster").done == 160
    assert rows(tmp_path / "plain") == rows(tmp_path / "cluster")
    plain, cluster = (Manifest.read(tmp_path / name) for name in ("plain", "cluster"))
    assert plain.fingerprint == cluster.fingerprint


@pytest.mark.usefixtures("address")
def test_a_plain_run_goes_on_on_ray_and_requests_are_in_flight_together(tmp_path: Path) -> None:
    script = Script(latency=0.5)
    with running(script) as url:
        options = {"model": "stub", "base_url": url, "n_per_request": 1, "parallel": 16}
        assert draw(tmp_path, plugins.load("engine", "openai", **options), n=5).done == 40
        engine = on_ray("openai", **options)
        script.most, script.latency = 0, 1.5  # time for the second worker to start on a busy machine
        progress = draw(tmp_path, engine, n=20)
    assert (progress.kept, progress.done) == (40, 120)
    assert engine.capabilities.parallel == 32
    assert 16 < script.most <= 32, "more than one worker has open at once"


@pytest.mark.usefixtures("address")
def test_real_models_draw_on_ray(tmp_path: Path, smollm2: Path) -> None:
    options = {"model": str(smollm2), "threads": 1, "n_parallel": 4}
    task = plugins.load("task", "starter")
    engine = on_ray("llamacpp", **options)
    job = Job(task, engine, tmp_path / "run", Order(Sampling(max_tokens=12), 4), 3)
    assert asyncio.run(execute(job)).done == 12
    found = rows(tmp_path / "run")
    assert len(found) == len({row[:3] for row in found}) == 12
    assert len({row[5] for row in found}) > 3
    assert engine.identity() == plugins.load("engine", "llamacpp", **options).identity()


@pytest.mark.usefixtures("address")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_worker_loses_nothing_that_was_committed(tmp_path: Path, workers: int) -> None:
    import ray

    draw(tmp_path, plugins.load("engine", "fake"), "plain")
    engine = on_ray(workers=workers, latency=0.1, max_n=2)
    before: list[tuple[Any, ...]] = []

    def kill_once(progress: Progress) -> None:
        if progress.done > 30 and not before:
            before.extend(rows(tmp_path / "run"))
            victim = engine._seats[0].actor
            os.kill(ray.get(victim.__ray_call__.remote(lambda _: os.getpid())), signal.SIGKILL)

    assert draw(tmp_path, engine, watch=kill_once).done == 160
    after = rows(tmp_path / "run")
    lost = [row for row in after if row[-1] is not None]
    assert set(before) <= set(after)
    assert paths_of(tmp_path / "run") == paths_of(tmp_path / "plain")
    assert lost
    assert all("a worker of the cluster was lost" in row[-1] for row in lost)
    assert Counter(row[:3] for row in after).most_common(1)[0][1] <= 3


@pytest.mark.usefixtures("address")
def test_what_the_engine_says_arrives_as_it_was_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"p must lie in \[0, 1\], not 7"):
        draw(tmp_path, on_ray(p=7))
    with pytest.raises(PluginError, match="unknown engine 'warp'"):
        draw(tmp_path, on_ray("warp"))
    with pytest.raises(EngineError, match="requests failed in a row, the last with: engine fake"):
        draw(tmp_path, on_ray(fail=1.0))
    with pytest.raises(UsageError, match="--on 'slurm'"):
        on_cluster("slurm", None, "fake", {})


def test_sigterm_of_the_driver_keeps_what_was_received(tmp_path: Path, address: str) -> None:
    command = [
        sys.executable,
        "-m",
        "keff",
        "sample",
        str(questions(tmp_path)),
        "--run",
        str(tmp_path / "run"),
    ]
    command += ["--engine", "fake", "--engine-option", "latency=0.3", "--k", "8", "--on", "ray"]
    process = subprocess.Popen(
        [*command, "--engine-option", "max_n=1", "--workers", "1"],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"RAY_ADDRESS": address},
    )
    while process.poll() is None and count(tmp_path / "run") <= 20:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1, said
    assert [line for line in said.splitlines() if line.startswith("keff:")] == said.splitlines()[-1:]
    assert "stopped; every path that was received is kept" in said
    assert "Traceback" not in said
    kept = count(tmp_path / "run")
    assert 20 < kept < 320


def test_without_ray_the_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "keff.engines._ray", raising=False)
    with pytest.raises(PluginError, match=r"--on ray needs the package ray: pip install .*\[ray\]'"):
        on_ray()


def test_workers_without_a_cluster_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--workers needs --on ray"):
        SampleOptions(task=str(questions(tmp_path)), run=tmp_path / "run", engine="fake", workers=2).job()


@pytest.mark.usefixtures("address")
def test_cells_of_a_study_share_the_workers_and_a_killed_one_loses_no_path(tmp_path: Path) -> None:
    """Three cells on two workers: none has more requests than it takes, and a kill costs no path."""
    import ray

    engine = on_ray(latency=0.2, max_n=2, parallel=3)
    task = plugins.load("task", "jsonl", data=str(questions(tmp_path)))
    jobs = [
        Job(task, engine, tmp_path / f"cell{i}", Order(Sampling(seed=i), 8, backoff=0.01), 10)
        for i in range(3)
    ]
    most, begun, killed = 0, set(), []

    def watch(place: int, progress: Progress) -> None:
        nonlocal most
        most = max(most, *(seat.busy for seat in engine._seats), 0)
        begun.add(place)
        if progress.done > 20 and not killed:
            killed.append(engine._seats[0].actor)
            os.kill(ray.get(killed[0].__ray_call__.remote(lambda _: os.getpid())), signal.SIGKILL)

    outcomes = asyncio.run(draw_all(engine, jobs, watch))
    assert [outcome.error for outcome in outcomes] == [None] * 3
    assert most <= 3
    for seed in range(3):
        kept = paths_of(tmp_path / f"cell{seed}")
        assert len(kept) == len({row[:3] for row in kept}) == 80
