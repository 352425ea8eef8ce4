"""Confidences in the gateway: log-probabilities where a rule needs them, verifiers, and what fails."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from app_rig import Serve, says
from fault_server import Script
from gateway_rig import QUESTION, make_plan
from keff.errors import PlanError, UsageError
from keff.gateway.service import Options
from keff.sampling.cost import Price
from keff.sampling.verifier import OwnFunction, Verifier
from keff.stats.voting.calibration import Calibration
from keff.usercode import Stamp

SEEDED = {"messages": QUESTION, "seed": 0}
LOGPROBS = {"confidence": Calibration((-3.0, 0.0), (0.1, 0.95), (0.5, 1.5), 0.6)}
SCORES = {"confidence": Calibration((0.0, 1.0), (0.0, 1.0), (0.25, 4.0), 0.5)}


def verifier(function: Any, seconds: float = 5.0) -> Verifier:
    return Verifier(Stamp("mine.py:rate", "ab" * 32), OwnFunction(lambda: function), seconds)


def test_log_probabilities_are_asked_for_only_where_the_rule_reads_them(serve: Serve) -> None:
    script = Script(answer=says("7", "8"))
    serve(script, plan=make_plan("lead_k:2,cap=4", calibrations=LOGPROBS)).post(SEEDED)
    assert not any("logprobs" in body for body in script.requests)
    script = Script(answer=says("7", "8"))
    rig = serve(script, plan=make_plan("switch:0.3,cap=4", calibrations=LOGPROBS))
    reply = rig.post(SEEDED).json()
    assert all(body["logprobs"] is True for body in script.requests)
    assert "logprobs" not in reply["choices"][0]
    assert (reply["keff"]["paths"], reply["keff"]["weight"]["kind"]) == (1, "posterior")


@pytest.mark.parametrize(("sure", "paths"), [(-0.5, 1), (-0.3, 4)])
def test_the_log_probability_of_the_answer_s_tokens_is_read(serve: Serve, sure: float, paths: int) -> None:
    # The stub gives word i the log-probability -i/10: the answer is the fifth word, and their mean is -0.3.
    held = Calibration((sure - 0.05, sure, sure + 0.05), (0.1, 0.95, 0.1), (1.0, 1.0, 1.0), 0.6)
    plan = make_plan("switch:0.9,cap=4,confidence=logprob_answer", calibrations={"logprob_answer": held})
    script = Script(answer=says("7", "8"))
    reply = serve(script, plan=plan).post(SEEDED).json()
    assert reply["keff"]["paths"] == paths
    assert all(body["logprobs"] is True for body in script.requests)
    assert "logprobs" not in reply["choices"][0]


def test_a_server_that_refuses_log_probabilities_gives_ordinary_votes(serve: Serve) -> None:
    script = Script(answer=says("7", "7", "8"), refuses_logprobs=True)
    rig = serve(script, plan=make_plan("switch:0.3,cap=3,else=log_odds", calibrations=LOGPROBS))
    for _ in range(2):
        reply = rig.post(SEEDED).json()
        assert (reply["keff"]["answer"], reply["keff"]["paths"]) == ("7", 3)
    # It is asked for them once more at the most: paths of one round may be refused together.
    assert sum("logprobs" in body for body in script.requests) == 1


def test_a_server_without_log_probabilities_gives_ordinary_votes(serve: Serve) -> None:
    rig = serve(
        Script(answer=says("7", "8", "7"), logprobs=False),
        plan=make_plan("fixed:3,weight=log_odds", calibrations=LOGPROBS),
    )
    assert rig.post(SEEDED).json()["keff"]["answer"] == "7"


async def soon(prompt: str, text: str) -> float:
    await asyncio.sleep(0.01)
    assert prompt and text
    return 0.99 if "8" in text else 0.2


@pytest.mark.parametrize("rate", [soon, lambda _, text: 0.99 if "8" in text else 0.2], ids=["async", "sync"])
def test_a_verifier_ends_the_vote_at_the_first_good_path(serve: Serve, rate: Any) -> None:
    script = Script(answer=says("7", "8", "7", "7"))
    plan = make_plan("switch:0.9,cap=4", calibrations=SCORES)
    rig = serve(script, plan=plan, verifier=verifier(rate))
    told = rig.post(SEEDED).json()["keff"]
    assert (told["answer"], told["paths"]) == ("8", 2)
    assert not any("logprobs" in body for body in script.requests)
    assert rig.metric('keff_verifier_paths_total{became="rated"}') == 2


def hangs(*_: str) -> float:
    time.sleep(2)
    return 1.0


@pytest.mark.parametrize(
    ("rate", "why"),
    [
        (lambda _, __: 1 / 0, "raises ZeroDivisionError"),
        (lambda _, __: "good", "returns str"),
        (lambda _, __: float("nan"), "returns nan"),
        (lambda _, __: None, "returns NoneType"),
        (hangs, "takes more than"),
    ],
)
def test_a_verifier_that_fails_leaves_ordinary_votes_and_is_counted(
    serve: Serve, rate: Any, why: str
) -> None:
    own = verifier(rate, seconds=0.2)
    rig = serve(
        Script(answer=says("8", "7", "7")),
        plan=make_plan("fixed:3,weight=log_odds", calibrations=SCORES),
        verifier=own,
    )
    assert rig.post(SEEDED).json()["keff"]["answer"] == "7"
    assert rig.metric('keff_verifier_paths_total{became="failed"}') == 3
    assert own.failure_line() is not None
    assert why in str(own.failure_line())


def test_a_verifier_that_hangs_is_not_waited_for_by_every_request_and_that_is_logged_once(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    async def rate(_: str, text: str) -> float:
        asked.append(text)
        await asyncio.sleep(60)
        return 1.0

    rig = serve(
        Script(answer=says("8", "7", "7")),
        plan=make_plan("fixed:3,weight=log_odds", calibrations=SCORES),
        verifier=verifier(rate, seconds=0.1),
    )
    for request in (1, 2):
        assert rig.post(SEEDED).json()["keff"]["answer"] == "7"
        assert rig.metric('keff_verifier_paths_total{became="failed"}') == 3 * request
        assert len(asked) == 3
    (said,) = (line.message for line in caplog.records if line.name == "keff")
    assert said.startswith(
        "the verifier mine.py:rate takes more than 0.1 s, 3 times in a row: it is set aside"
    )


def test_one_path_without_an_answer_does_not_end_a_switched_vote(serve: Serve) -> None:
    script = Script(answer=lambda _, seed: "no idea" if seed == 0 else "The answer is 7")
    rig = serve(script, plan=make_plan("switch:0.3,cap=4", calibrations=LOGPROBS))
    told = rig.post(SEEDED).json()["keff"]
    assert (told["answer"], told["paths"], told["stop"]) == ("7", 2, "policy")


def test_a_request_may_ask_for_a_rule_on_the_plan_s_calibration(serve: Serve) -> None:
    rig = serve(Script(answer=says("7", "8")), plan=make_plan("fixed:2", calibrations=LOGPROBS))
    asked = {"messages": [{"role": "user", "content": "?"}], "keff": {"policy": "switch:0.3,cap=2"}}
    assert rig.post(asked).json()["keff"]["paths"] == 1
    asked["keff"] = {"policy": "switch:0.3,cap=2,confidence=other"}
    refused = rig.post(asked)
    assert refused.status_code == 400
    assert "keff analyze RECORD -o plan.json" in refused.text


@pytest.mark.parametrize(
    ("policy", "fields", "error", "says_so"),
    [
        ("switch:0.9,cap=4", {}, PlanError, "needs a calibration"),
        ("switch:0.9,cap=4", {"calibrations": SCORES}, PlanError, "--verifier FILE.py:function"),
        (
            "fixed:2,weight=log_odds",
            {
                "calibrations": SCORES,
                "task": {
                    "name": "gsm8k",
                    "options": {"name": "gsm8k"},
                    "code": {"verifier": {"name": "rm.py:rate", "sha256": "00"}},
                },
            },
            UsageError,
            "made with the verifier 'rm.py:rate'",
        ),
    ],
)
def test_a_plan_whose_confidence_nobody_gives_is_refused(
    policy: str, fields: dict[str, Any], error: type[Exception], says_so: str
) -> None:
    from keff.gateway.deployment import Deployment, policy_of
    from keff.gateway.upstream.answer import Address

    address = Address(url="http://localhost:1/v1")
    deployment = Deployment(plan=make_plan(policy, **fields), address=address, options=Options())
    with pytest.raises(error, match=says_so):
        policy_of(deployment)


def test_what_the_verifier_costs_is_charged_with_the_paths(serve: Serve) -> None:
    plan = make_plan("switch:0.9,cap=4", calibrations=SCORES)
    prices = {"m": Price(path=1.0), "verifier": Price(path=0.25, second=0.5)}
    rig = serve(
        Script(answer=says("7", "8", "7", "7")),
        plan=plan,
        verifier=verifier(soon),
        options=Options(prices=prices),
    )
    told = rig.post({**SEEDED, "model": "m"}).json()["keff"]
    assert told["paths"] == 2
    # Two ratings, each of which took a hundredth of a second or more.
    assert 2.5 + 2 * 0.5 * 0.01 <= told["cost"]["dollars"] < 2.5 + 2 * 0.5 * 5
    assert rig.metric("keff_dollars_total") == pytest.approx(told["cost"]["dollars"])
