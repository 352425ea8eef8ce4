"""The sampler on the fake engine: everything owed is drawn once, failures are retried and kept on record."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.logs.log_bases import unsealed
from keff import plugins
from keff.engine import Capabilities
from keff.errors import EngineError, StoreError, UsageError
from keff.policy import parse_policy, tally
from keff.records import Sampling
from keff.sampling.job import Job, execute, parse_templates, score
from keff.sampling.sampler import Order, Progress, paths_per_slot
from keff.sampling.store import DATABASE, Run


def questions(folder: Path, n: int) -> str:
    file = folder / "questions.jsonl"
    rows = ({"id": f"q{i}", "question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(n))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def job(
    folder: Path, *, n: int = 6, k: int = 4, seed: int = 0, engine: dict[str, Any] | None = None, **order: Any
) -> Job:
    task = plugins.load("task", "jsonl", data=questions(folder, 40))
    made = plugins.load("engine", "fake", **{"max_n": 3, **(engine or {})})
    return Job(task, made, folder / "run", Order(Sampling(seed=seed), k, backoff=0.001, **order), n)


def draw(one: Job) -> Progress:
    return asyncio.run(execute(one))


def rows(folder: Path, columns: str = "item, slot, path, attempt, text, error") -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "run" / DATABASE)) as database:
        found = database.execute(f"select {columns} from paths order by item, slot, path, attempt").fetchall()
    database.close()
    return found


def test_every_owed_path_is_drawn_once_and_a_second_run_draws_nothing(tmp_path: Path) -> None:
    assert draw(job(tmp_path)).done == 24
    assert Counter(rows(tmp_path, "item, slot, path")).most_common(1)[0][1] == 1
    again = draw(job(tmp_path))
    assert (again.done, again.kept) == (0, 24)


def test_raising_n_and_k_keeps_what_is_there_and_draws_only_what_is_missing(tmp_path: Path) -> None:
    draw(job(tmp_path))
    before = set(rows(tmp_path))
    assert draw(job(tmp_path, n=9, k=7)).done == 9 * 7 - 24
    assert before < set(rows(tmp_path))


def test_the_same_seed_gives_the_same_run_in_any_order_of_drawing(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    draw(job(tmp_path / "a", concurrency=1))
    draw(job(tmp_path / "b", n=3, k=2))
    draw(job(tmp_path / "b", concurrency=16, engine={"max_n": 1}))
    assert rows(tmp_path / "a") == rows(tmp_path / "b")
    assert len({text for *_, text, _ in rows(tmp_path / "a")}) > 6


def test_failures_are_rows_of_their_own_and_are_tried_again(tmp_path: Path) -> None:
    progress = draw(job(tmp_path, n=30, k=8, engine={"fail": 0.2}, attempts=9))
    kept = [row for row in rows(tmp_path) if row[5] is None]
    failed = [row for row in rows(tmp_path) if row[5] is not None]
    assert len(kept) == 240 == len({row[:3] for row in kept})
    assert len(failed) == progress.failed > 0
    assert all("simulated failure" in row[5] and row[4] is None for row in failed)


def test_what_failed_for_good_is_owed_by_the_next_session(tmp_path: Path) -> None:
    draw(job(tmp_path, engine={"fail": 0.5}, attempts=1))
    left = 24 - sum(row[5] is None for row in rows(tmp_path))
    assert left > 0
    assert draw(job(tmp_path)).done == left


def test_a_dead_engine_opens_the_breaker_and_the_run_goes_on_later(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"[56] requests failed in a row"):
        draw(job(tmp_path, engine={"fail": 1.0}, attempts=99, breaker=5, concurrency=2))
    assert draw(job(tmp_path)).done == 24


def test_an_error_that_cannot_pass_stops_at_once_and_records_nothing(tmp_path: Path) -> None:
    one = job(tmp_path)

    async def refuse(*_: Any) -> Any:
        raise EngineError("wrong key", transient=False)

    one.engine.generate = refuse  # type: ignore[method-assign]
    with pytest.raises(EngineError, match="wrong key"):
        draw(one)
    assert rows(tmp_path) == []


def test_a_cancelled_run_keeps_what_was_received(tmp_path: Path) -> None:
    async def interrupt() -> None:
        received = asyncio.Event()
        one = job(tmp_path, n=20, engine={"latency": 0.02}, concurrency=3)

        def told(progress: Progress) -> None:
            if progress.done:
                received.set()

        work = asyncio.ensure_future(execute(one, told))
        await received.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(interrupt())
    kept = len(rows(tmp_path))
    assert 0 < kept < 80
    assert draw(job(tmp_path, n=20)).done == 80 - kept


def test_a_spent_budget_stops_cleanly(tmp_path: Path) -> None:
    progress = draw(job(tmp_path, n=20, concurrency=1, halt=lambda p: "budget" if p.tokens > 100 else None))
    assert progress.stopped == "budget"
    assert 100 < progress.tokens < 250


def test_paths_cycle_through_the_templates(tmp_path: Path) -> None:
    assert paths_per_slot(7, (2, 0, 5)) == [(2, 3), (0, 2), (5, 2)]
    file = tmp_path / "t.toml"
    file.write_text('templates = ["Think.", "Be brief.", "Check twice."]')
    task = plugins.load("task", "jsonl", data=questions(tmp_path, 4), template=str(file))
    slots = parse_templates("all", task)
    draw(Job(task, plugins.load("engine", "fake"), tmp_path / "run", Order(Sampling(), 7, slots), 2))
    counts = Counter(slot for (slot,) in rows(tmp_path, "slot"))
    assert sorted(counts) == sorted(slots)
    assert sum(counts.values()) == 14


@pytest.mark.parametrize("text", ["9", "1,1", "two", "-1"])
def test_templates_that_do_not_exist_are_refused(tmp_path: Path, text: str) -> None:
    task = plugins.load("task", "jsonl", data=questions(tmp_path, 4))
    with pytest.raises(UsageError, match="--templates"):
        parse_templates(text, task)


def test_a_policy_stops_drawing_and_resumes_where_it_stopped(tmp_path: Path) -> None:
    policy = parse_policy("lead_k:2,cap=9")
    progress = draw(job(tmp_path, n=20, policy=policy, engine={"p": 0.8, "c": 0.2}))
    counts = Counter(item for (item,) in rows(tmp_path, "item"))
    assert set(counts.values()) <= set(range(2, 10))
    assert len(set(counts.values())) > 1
    assert progress.done == sum(counts.values())
    assert draw(job(tmp_path, n=20, policy=policy, engine={"p": 0.8, "c": 0.2})).done == 0


def test_a_vote_that_stopped_within_the_stored_paths_is_not_taken_up_again(tmp_path: Path) -> None:
    kinds = {"p": 0.4, "c": 0.0}
    draw(job(tmp_path, n=12, k=9, engine=kinds))
    draw(job(tmp_path, n=12, policy=parse_policy("lead_k:2,cap=12"), engine=kinds))
    drawn_on, level_at_nine = set[str](), set[str]()
    with Run.open(tmp_path / "run") as run:
        for item in run.items():
            keys = [path.judged and path.judged.key for path in run.kept(item.id)]
            seen = [tally(keys[:n]) for n in range(10)]
            drawn_on |= {item.id} if len(keys) > 9 else set()
            level_at_nine |= {item.id} if seen[9].v1 - seen[9].v2 < 2 else set()
            assert (len(keys) > 9) == all(votes.v1 - votes.v2 < 2 for votes in seen)
    assert drawn_on < level_at_nine


class Uneven:
    """The fake engine with paths that end out of order; ``most`` ran at once for one item."""

    def __init__(self, **options: Any) -> None:
        self.inner = plugins.load("engine", "fake", max_n=1, **options)
        self.capabilities, self.asked, self.running, self.most = self.inner.capabilities, 0, Counter[str](), 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def generate(self, messages: Any, sampling: Sampling, n: int) -> Any:
        item, self.asked = str(messages), self.asked + 1
        self.running[item] += 1
        self.most = max(self.most, self.running[item])
        try:
            for _ in range(self.asked * 7 % 5):
                await asyncio.sleep(0)
            return await self.inner.generate(messages, sampling, n)
        finally:
            self.running[item] -= 1


@pytest.mark.slow
def test_paths_in_flight_stop_where_one_path_at_a_time_does(tmp_path: Path) -> None:
    policy = parse_policy("lead_k:2,cap=9,in_flight=3,order=launch")
    kinds = {"p": 0.7, "c": 0.2}
    (tmp_path / "alone").mkdir()
    alone = job(tmp_path / "alone", n=20, policy=parse_policy("lead_k:2,cap=9"), engine=kinds)
    draw(alone)
    flying = job(tmp_path, n=20, policy=policy, engine=kinds)
    engine = Uneven(**kinds)
    draw(replace(flying, engine=engine))
    assert engine.most == 3 and not +engine.running
    slowly, columns = dict[tuple[str, int], str](), "item, path, text"
    slowly = {(item, path): text for item, path, text in rows(tmp_path / "alone", columns)}
    quickly = {(item, path): text for item, path, text in rows(tmp_path, columns)}
    assert slowly.items() <= quickly.items()  # the same votes, and what ended before the stop was heard of
    asked = engine.asked
    assert draw(replace(flying, engine=engine)).done == 0
    assert engine.asked == asked


@pytest.mark.parametrize("spec", ["curtailed:cap=5,in_flight=2", "curtailed:cap=5", "fixed:5"])
def test_a_path_that_fails_leaves_its_question_unfinished_and_is_drawn_when_resumed(
    tmp_path: Path, spec: str
) -> None:
    class Down(Uneven):
        async def generate(self, messages: Any, sampling: Sampling, n: int) -> Any:
            if self.asked in (2, 5):
                self.asked += 1
                raise EngineError("down")
            return await super().generate(messages, sampling, n)

    one = replace(
        job(tmp_path, n=3, policy=parse_policy(spec), attempts=1, concurrency=2), engine=Down(p=0.6)
    )
    first = draw(one)
    again = draw(one)
    assert (first.unfinished, again.unfinished) == (2, 0)
    assert first.failed == 2 and len(rows(tmp_path, "item")) == first.done + again.done + 2


def test_a_policy_with_several_templates_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exchangeable"):
        draw(job(tmp_path, policy=parse_policy("lead_k:2"), slots=(0, 1)))


def test_another_temperature_is_refused_with_the_field(tmp_path: Path) -> None:
    draw(job(tmp_path))
    other = job(tmp_path)
    hot = Job(other.task, other.engine, other.folder, Order(Sampling(temperature=1.1), 4), 6)
    with pytest.raises(StoreError, match=r"sampling\.temperature: 0\.7 -> 1\.1"):
        draw(hot)


def test_scores_that_a_kill_lost_are_made_again_without_drawing(tmp_path: Path) -> None:
    draw(job(tmp_path))
    unsealed(tmp_path / "run")
    database = sqlite3.connect(tmp_path / "run" / DATABASE)
    before = database.execute("select * from scores order by 1, 2, 3").fetchall()
    database.execute("delete from scores where path > 1")
    database.commit()
    assert draw(job(tmp_path)).done == 0
    assert database.execute("select * from scores order by 1, 2, 3").fetchall() == before
    database.close()


def test_scoring_everything_again_changes_nothing_under_the_same_version(tmp_path: Path) -> None:
    one = job(tmp_path)
    draw(one)
    with Run.open(tmp_path / "run") as drawn:
        config = drawn.manifest.config
    with Run.write(tmp_path / "run", config, n=6, k=4) as run:
        assert score(run, one.task) == 0
        assert score(run, one.task, everything=True) == 24


@pytest.mark.parametrize(("k", "slots", "most"), [(8, (0,), 2), (4, (0,), 4), (3, (0, 1, 2), 16)])
def test_an_engine_that_counts_paths_gets_more_of_smaller_requests(
    tmp_path: Path, k: int, slots: tuple[int, ...], most: int
) -> None:
    file = tmp_path / "t.toml"
    file.write_text('templates = ["Think.", "Be brief.", "Check twice."]')
    task = plugins.load("task", "jsonl", data=questions(tmp_path, 40), template=str(file))
    engine = plugins.load("engine", "fake", latency=0.01)
    engine.capabilities = Capabilities(max_n=8, parallel=2, by_paths=True)
    flying, seen, generate = 0, 0, engine.generate

    async def counted(*given: Any) -> Any:
        nonlocal flying, seen
        flying += 1
        seen = max(seen, flying)
        try:
            return await generate(*given)
        finally:
            flying -= 1

    engine.generate = counted
    draw(Job(task, engine, tmp_path / "run", Order(Sampling(), k, slots), 20))
    assert seen == most


def test_what_failed_is_asked_again_in_requests_that_the_engine_takes_now(tmp_path: Path) -> None:
    one = job(tmp_path, engine={"max_n": 8}, k=8, attempts=2)
    generate, asked = one.engine.generate, list[int]()

    async def at_most_two(messages: Any, sampling: Sampling, n: int) -> Any:
        asked.append(n)
        if n > 2:
            one.engine.capabilities = replace(one.engine.capabilities, max_n=2)
            raise EngineError("too many at once")
        return await generate(messages, sampling, n)

    one.engine.generate = at_most_two  # type: ignore[method-assign]
    assert draw(one).done == 48
    assert set(asked) == {8, 2}
