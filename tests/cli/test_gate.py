"""A paid run whose first paths look wrong stops early, pays no more, and goes on when it is told to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the fault server needs starlette: pip install 'keff[serve]'")
from fault_server import Script, default_answer, running
from keff.cli._preflight import sample_as_wished
from keff.cli._sampling import SampleOptions
from keff.errors import RunError
from keff.sampling.sampler import Progress

ITEMS, K = 60, 8


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    file = tmp_path / "q.jsonl"
    rows = ({"id": f"q{i}", "question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(ITEMS))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def sample(questions: Path, url: str, **wishes: Any) -> Progress:
    """Sample with --yes from a server that keff does not know to be on this machine."""
    given = {"base_url": url.replace("127.0.0.1", "0.0.0.0"), "run": questions.parent / "run"} | wishes
    wished = SampleOptions(task=str(questions), engine="openai", k=K, concurrency=2, yes=True, **given)
    return sample_as_wished(wished)[1]


def always_the_same(_: list[dict[str, Any]], __: int) -> str:
    return "It is what it is and so the final answer is 4"


def test_collapsed_sampling_stops_a_paid_run_early(questions: Path) -> None:
    script = Script(answer=always_the_same)
    with running(script) as url:
        with pytest.raises(RunError, match=r"stopped early: 100% of the pairs.*--keep-going"):
            sample(questions, url)
        paid = len(script.requests)
        assert 8 <= paid <= 12
        with pytest.raises(RunError, match=f"All {paid * K} paths are kept"):
            sample(questions, url)
        assert len(script.requests) == paid, "a run that looks wrong was paid for again"
        last = sample(questions, url, keep_going=True)
    assert (last.kept, last.done) == (paid * K, (ITEMS - paid) * K)


def test_truncated_paths_stop_it_and_the_line_says_what_to_change(questions: Path) -> None:
    truncated = Script(fault=lambda *_: "length")
    with (
        running(truncated) as url,
        pytest.raises(RunError, match=r"100% .* cut off at max_tokens\. Draw longer ones with keff sample"),
    ):
        sample(questions, url)


def test_failing_requests_stop_it(questions: Path) -> None:
    script = Script(fault=lambda number, _: "500" if number % 2 else None)
    with running(script) as url, pytest.raises(RunError, match=r"% of the requests failed"):
        sample(questions, url, engine_option=["max_retries=0"])
    assert len(script.requests) < 40


@pytest.mark.slow
def test_a_healthy_paid_run_and_a_free_one_are_not_stopped(questions: Path) -> None:
    with running(Script()) as url:
        assert sample(questions, url).done == ITEMS * K
    with running(Script(answer=always_the_same)) as url:
        assert sample(questions, url, run=questions.parent / "free", base_url=url).done == ITEMS * K


def test_a_run_that_goes_on_has_no_new_budget(questions: Path, tmp_path: Path) -> None:
    """What the run holds counts: the same command draws nothing more, a higher limit draws on to that one."""

    def session(tokens: int) -> int:
        wishes = SampleOptions(task=str(questions), run=tmp_path / "run", engine="fake", k=2, concurrency=1)
        drawn = sample_as_wished(replace(wishes, token_budget=tokens))[1]
        assert drawn.stopped == f"the token budget of {tokens} is spent ({held + used(drawn)} tokens)"
        return used(drawn)

    held = 0
    held += session(500)
    assert 500 <= held < 600
    assert session(500) == 0
    held += session(900)
    assert 900 <= held < 1000


def test_a_budget_is_passed_by_what_is_in_flight_and_no_more(questions: Path) -> None:
    """As the help says: no path is started once the tokens are there."""
    flying = 4
    script = Script(latency=0.02)
    with running(script) as url:
        wished = {"token_budget": 600, "concurrency": flying, "engine_option": ["n_per_request=1"]}
        wishes = SampleOptions(task=str(questions), run=questions.parent / "run", base_url=url, k=K, **wished)
        drawn = sample_as_wished(wishes)[1]
    each = max(7 + len(default_answer(body["messages"], body["seed"]).split()) for body in script.requests)
    assert 600 <= used(drawn) < 600 + flying * each
    assert script.most == flying


def used(drawn: Progress) -> int:
    return drawn.tokens + drawn.prompt_tokens
