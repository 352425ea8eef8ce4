"""The policy that stops the epochs of an inspect_ai sample; a real evaluation is in the integration tests."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from types import ModuleType

import pytest

from keff.analysis.early_stopping import StopWhenSettled
from keff.errors import KeffError, PluginError


@dataclass
class Score:
    answer: str | None


@dataclass
class SampleScore:
    score: Score


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """What is handed to inspect_ai's EarlyStop."""
    stops: list[dict[str, object]] = []
    util = ModuleType("inspect_ai.util")
    util.EarlyStop = lambda **given: stops.append(given) or given  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "inspect_ai", ModuleType("inspect_ai"))
    monkeypatch.setitem(sys.modules, "inspect_ai.util", util)
    return stops


async def run(manager: StopWhenSettled, said: list[str | None]) -> int:
    """Return how many epochs of one sample are drawn when they come one after the other."""
    await manager.start_task(None, [], len(said))
    for epoch, answer in enumerate(said, 1):
        if await manager.schedule_sample("q", epoch) is not None:
            return epoch - 1
        await manager.complete_sample("q", epoch, {"match": SampleScore(Score(answer))})
    return len(said)


@pytest.mark.parametrize(
    ("said", "drawn"),
    [
        (["4", "4.0", "4"], 2),
        (["4", "5", "4", "4", "4"], 4),
        (["4", None, "4", "4"], 3),
        (["4", "5", "5", "4", "4", "5"], 6),
    ],
)
def test_epochs_stop_when_a_lead_is_reached(
    told: list[dict[str, object]], said: list[str | None], drawn: int
) -> None:
    manager = StopWhenSettled("lead_k:2,cap=16", answer_space="numeric")
    assert asyncio.run(run(manager, said)) == drawn
    assert len(told) == (drawn < len(said))
    saved = asyncio.run(manager.complete_task())
    assert (saved["samples_stopped"], saved["epochs_skipped"]) == (len(told), len(told))


def test_only_epochs_up_to_the_first_that_is_not_done_count(told: list[dict[str, object]]) -> None:
    async def out_of_order() -> list[bool]:
        manager = StopWhenSettled("lead_k:2,cap=16")
        await manager.start_task(None, [], 9)
        stopped: list[bool] = []
        for epoch in (2, 3, 4, 1):
            await manager.complete_sample(7, epoch, {"a": SampleScore(Score("x"))})
            stopped.append(await manager.schedule_sample(7, 5) is not None)
        return stopped

    assert asyncio.run(out_of_order()) == [False, False, False, True]
    assert told[0]["id"] == 7
    assert told[0]["epoch"] == 5


@pytest.mark.parametrize("policy", ["cascade:a=2,b=4", "lead_k:2,cap=8,weight=confidence", "nonsense"])
def test_policies_that_need_more_than_answers_are_refused(policy: str) -> None:
    with pytest.raises(KeffError):
        StopWhenSettled(policy)


def test_without_inspect_ai_the_line_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    monkeypatch.setitem(sys.modules, "inspect_ai.util", None)
    with pytest.raises(PluginError, match="early stopping of inspect_ai"):
        asyncio.run(run(StopWhenSettled("lead_k:2,cap=16"), ["x", "x", "x"]))
