"""One policy, three drivers.

Live sampling, replay and the gateway stop at the same path with the same answer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from keff import plugins
from keff.analysis.walks import decisions, run
from keff.answers import space
from keff.errors import EngineError
from keff.gateway.upstream.answer import Answer, UpstreamError
from keff.gateway.vote.extraction import Reader
from keff.gateway.vote.vote import PathResult, Vote
from keff.policy import Policy, Stop, parse_policy, tally
from keff.protocol.server import Refusal, Sharing
from keff.records import Completion, Item, Logprobs, Message, Sampling, stable_hash
from keff.sampling.job import Job, execute
from keff.sampling.sampler import Order, launch_view
from keff.sampling.store import Run
from keff.sampling.store.rows import path_seed
from keff.stats.voting.alike import dense_codes
from keff.stats.voting.draws import Draws
from keff.task import Task, select
from recorded_rig import Recorded

PATHS = 14
SPECS = (
    "fixed:9",
    "curtailed:cap=14",
    "lead_k:2,cap=14",
    "lead_k:3,cap=11",
    "adaptive_consistency:0.9,cap=14",
    "budget:3,cap=14",
    "esc:3,cap=14",
    "pilot_budget:0.95,a=0.8,w=0.5,cap=14",
    "e_value:0.3,cap=14",
    "lead_k:2,cap=14,weight=confidence,temperature=0.5",
    "lead_k:2,cap=14,wave=3",
    "esc:3,cap=13,wave=4",
    "budget:3,cap=14,wave=4+2",
    "lead_k:3,cap=14,wave=5,weight=confidence,temperature=0.5",
)
ANSWERS = ("11", "12", "13", "14")
TICK = 0.0003

# Random, so that no two answers have equal weights, and exact in single precision, in which replay holds
# them.
CONFIDENCES: list[float] = np.random.default_rng(3).random(PATHS, np.float32).tolist()


@dataclass(frozen=True)
class Question:
    """The recorded votes of one question, in launch order."""

    gold: str
    keys: tuple[str | None, ...]


@dataclass(frozen=True)
class Pace:
    """How paths come back: which are late, and by how many ticks; which requests fail once; how many fly."""

    late: str
    ticks: tuple[int, ...]
    stumbles: frozenset[int]
    most: int
    flight: int

    def seconds(self, index: int, right: bool) -> float:
        return TICK * (self.ticks[index] + 6 * (self.late == ("right" if right else "wrong")))


Ended = tuple[list[str | None], Stop]
"""The votes that a policy took, in launch order, and its last decision."""


@st.composite
def recorded_votes(draw: st.DrawFn) -> Question:
    known = ANSWERS[: draw(st.integers(1, 4))]
    pool = st.sampled_from((*known, draw(st.sampled_from(known)), None))
    keys = draw(st.lists(pool, min_size=PATHS, max_size=PATHS))
    return Question(draw(st.sampled_from(ANSWERS)), tuple(keys))


paces = st.builds(
    Pace,
    late=st.sampled_from(["right", "wrong", "neither"]),
    ticks=st.lists(st.integers(0, 4), min_size=PATHS, max_size=PATHS).map(tuple),
    stumbles=st.frozensets(st.integers(0, PATHS - 1), max_size=2),
    most=st.sampled_from([1, 3]),
    flight=st.sampled_from([2, 5, PATHS]),
)


class Paced(Recorded):
    """Serves the recorded texts, each request as late as its latest path."""

    def __init__(self, task: Task, questions: Sequence[Question], pace: Pace) -> None:
        paths: dict[str, dict[int, Completion]] = {}
        self.stumbles: set[int] = set()
        for item in select(task):
            question = questions[int(item.id)]
            seeds = [path_seed(0, item.id, 0, index) for index in range(PATHS)]
            texts = [completion(question, pace, index) for index in range(PATHS)]
            paths[stable_hash(list(task.messages(item, 0)))] = dict(zip(seeds, texts, strict=True))
            self.stumbles.update(seeds[index] for index in pace.stumbles)
        super().__init__(paths, pace.most)

    async def generate(self, messages: Sequence[Message], sampling: Sampling, n: int) -> list[Completion]:
        drawn = await super().generate(messages, sampling, n)
        await asyncio.sleep(max(one.seconds for one in drawn))
        if stumbled := self.stumbles.intersection(range(sampling.seed, sampling.seed + n)):
            self.stumbles -= stumbled
            raise EngineError("stumbled")
        return drawn


def completion(question: Question, pace: Pace, index: int) -> Completion:
    key = question.keys[index]
    text = "I cannot say." if key is None else f"So the final answer is {key}."
    summary = Logprobs(CONFIDENCES[index], 0.0, 0.0)
    return Completion(text, tokens=5, logprobs=summary, seconds=pace.seconds(index, key == question.gold))


def task_of(folder: Path, questions: Sequence[Question]) -> Task:
    rows = [
        {"id": str(i), "question": f"Question {i}?", "answer": question.gold}
        for i, question in enumerate(questions)
    ]
    file = folder / "questions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    made: Task = plugins.load("task", "jsonl", data=str(file))
    return made


def sampled(folder: Path, task: Task, engine: Paced, policy: Policy, pace: Pace) -> dict[str, Ended]:
    """Sample into a run folder, and read from what it holds where each vote ended."""
    order = Order(Sampling(), PATHS, policy=policy, concurrency=pace.flight, backoff=TICK, breaker=10 * PATHS)
    asyncio.run(execute(Job(task, engine, folder / "run", order)))
    found: dict[str, Ended] = {}
    with Run.open(folder / "run") as kept:
        for item in kept.items():
            view = launch_view(kept, task, item, 0, policy)
            stop = policy.decide(view)
            assert isinstance(stop, Stop)
            assert len(view.keys) == len(kept.kept(item.id))
            found[item.id] = list(view.keys), stop
    return found


async def served(task: Task, engine: Paced, policy: Policy, pace: Pace) -> dict[str, Ended]:
    """Answer all questions at once by the gateway's vote, which reads the answers in its own way."""
    reader = Reader(space("numeric"))
    batches = Sharing(pace.most)

    async def judge(answer: Answer) -> list[PathResult]:
        return [
            PathResult(choice, {}, reader.read(choice).key, confidence=choice["confidence"])
            for choice in answer.choices
        ]

    async def one(item: Item) -> Ended:
        async def call(start: int, n: int, _branch: str) -> Answer:
            seed = path_seed(0, item.id, 0, start)
            try:
                drawn = await engine.generate(task.messages(item, 0), Sampling(seed=seed), n)
            except EngineError as error:
                raise UpstreamError(str(error), Refusal(0, wait=TICK), transient=error.transient) from error
            return Answer([choice(one) for one in drawn], {})

        outcome = await Vote(policy, call, judge, batches).run()
        assert outcome.cause == "policy"
        return [path.key for path in outcome.paths], outcome.stop

    items = select(task)
    ended = await asyncio.gather(*map(one, items))
    return {item.id: end for item, end in zip(items, ended, strict=True)}


def choice(drawn: Completion) -> dict[str, Any]:
    assert drawn.logprobs is not None
    message = {"role": "assistant", "content": drawn.text}
    return {"message": message, "finish_reason": "stop", "confidence": drawn.logprobs.mean}


def replayed(questions: Sequence[Question], policy: Policy) -> dict[str, Ended]:
    """Decide on one vote after the other, and check the pass over all questions at once against it."""
    names = [list(dict.fromkeys(key for key in one.keys if key is not None)) for one in questions]
    codes = [
        [-1 if key is None else known.index(key) for key in question.keys]
        for question, known in zip(questions, names, strict=True)
    ]
    right = np.array([[key == one.gold for key in one.keys] for one in questions], np.float32)
    scores = np.broadcast_to(np.array(CONFIDENCES, np.float32), right.shape)
    orders = (dense_codes(np.array(codes))[:, None], right[:, None], None, scores[:, None])
    walks = run(policy, Draws(*orders))
    assert walks.credit is not None
    found: dict[str, Ended] = {}
    for place, question in enumerate(questions):
        *_, (n, stop) = decisions(policy, list(question.keys), CONFIDENCES)
        assert isinstance(stop, Stop)
        assert walks.stop[place, 0] == n
        tied = winners(policy, question.keys[:n], stop)
        if len(tied) < 2:
            answer = int(walks.answer[place, 0])
            assert (names[place][answer] if answer >= 0 else None) == stop.answer
        # Replay splits a tie; the live drivers answer with the first answer seen of those tied.
        assert walks.credit[place, 0] == pytest.approx(sum(key == question.gold for key in tied) / len(tied))
        found[str(place)] = list(question.keys[:n]), stop
    return found


def winners(policy: Policy, keys: Sequence[str | None], stop: Stop) -> list[str | None]:
    if stop.answer is None or "weight=" in policy.spec:
        return [stop.answer]
    counts = tally(keys)
    return [key for key, count in counts.counts.items() if count == counts.v1]


@pytest.mark.parametrize("spec", SPECS)
@given(questions=st.lists(recorded_votes(), min_size=4, max_size=4), pace=paces)
@settings(max_examples=examples(4), deadline=None)
def test_live_replayed_and_served_votes_end_alike(
    tmp_path_factory: pytest.TempPathFactory, spec: str, questions: list[Question], pace: Pace
) -> None:
    folder = tmp_path_factory.mktemp("drivers")
    policy = parse_policy(spec)
    task = task_of(folder, questions)
    expected = replayed(questions, policy)
    assert sampled(folder, task, Paced(task, questions, pace), policy, pace) == expected
    assert asyncio.run(served(task, Paced(task, questions, pace), policy, pace)) == expected
