"""What a gateway learns from its traffic: the drift profile, the operator's pages, a plan for next time."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app_rig import until
from fault_server import Script, running
from gateway_rig import Options, Rig, gateway
from keff.errors import UsageError
from keff.gateway.traffic import pages, savings, traffic
from keff.gateway.traffic.ledger import TrafficLedger
from keff.gateway.traffic.monitor import Monitor
from keff.gateway.traffic.savings import Mean
from keff.gateway.traffic.traffic import Learner, Traffic, profile_of
from keff.gateway.vote.request_policy import policy_of_plan
from keff.plan import Plan
from keff.sampling.cost import Price

Serve = Callable[..., Rig]


def numbers(rate: float) -> Callable[[list[dict[str, Any]], int], str]:
    """Return answers that are 7 at this rate, else one of many others, by prompt and seed."""

    def answer(messages: list[dict[str, Any]], seed: int) -> str:
        rng = random.Random(f"{messages[-1]['content']}|{seed}")
        return f"Final answer: {7 if rng.random() < rate else rng.randrange(1000)}"

    return answer


def ask_many(rig: Rig, n: int, **more: Any) -> None:
    def ask(i: int) -> int:
        messages = [{"role": "user", "content": f"{i}. What is it? Final answer: <number>"}]
        return rig.post({"model": "m", "messages": messages, "seed": 0, **more}).status_code

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(n))) == {200}


def get(rig: Rig, path: str, **options: Any) -> httpx2.Response:
    return httpx2.get(rig.url.removesuffix("/v1") + path, timeout=60, **options)


JSON = {"accept": "application/json"}


@pytest.mark.slow
def test_the_first_voted_requests_are_the_profile_and_survive_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic, "ENOUGH", 20)
    state = tmp_path / "state.sqlite"
    with running(Script(answer=numbers(0.7))) as url:
        with gateway(url, planless=True, state=state) as rig:
            rig.post({"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1})
            ask_many(rig, 19)
            assert rig.monitor is None
            ask_many(rig, 3)
            assert rig.monitor is not None
            assert (rig.monitor.m, rig.monitor.seen) == (3, 2)
            assert rig.metric("keff_drift_requests_total") == 2
            with pytest.raises(UsageError, match="--state"), gateway(url, planless=True, state=state):
                pass
        with gateway(url, planless=True, state=state) as rig:
            assert rig.monitor is not None
            assert rig.monitor.seen == 2


def test_a_profile_holds_the_votes_of_its_requests() -> None:
    rows = [("a", "a", "a"), ("a", "b", "a"), ("a", None, "b"), ("a", "b", "c")]
    profile = profile_of(rows, 3)
    assert profile.votes == ((3,), (2, 1), (1, 1), (1, 1, 1))
    learner = Learner(3)
    assert [learner.observe([*row, "z"]) for row in rows] == [None] * 4
    assert profile_of(learner.rows, 3) == profile


def test_the_page_tells_what_was_seen_and_what_is_saved(serve: Serve) -> None:
    price = Price(prompt=1, output=2)
    rig = serve(Script(answer=numbers(1.0)), planless=True, options=Options(now="32", prices={"": price}))
    ask_many(rig, 5)
    told = get(rig, "/keff", headers=JSON).json()
    assert told["requests"] == 5
    assert told["paths_per_request"]["value"] == 3
    assert told["saved"]["value"] == pytest.approx(1 - 3 / 32)
    assert told["agreement"]["value"] == 1
    assert told["dollars_per_request"]["value"] == pytest.approx(rig.metric("keff_dollars_total") / 5)
    assert told["kinds"] == {"numeric": 5}
    page = get(rig, "/keff", headers={"accept": "text/html"})
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "src=" not in page.text and "http://" not in page.text
    assert get(rig, "/keff/plan").status_code == 409


def test_a_share_of_few_requests_stays_below_all_of_them() -> None:
    seen = Traffic()
    for keys in (("7", "7", "7"), ("7", "7", "7"), ("7", "8", "7", "7")):
        seen.add_vote(keys, "numeric", "policy", 0)
    told: Any = seen.summary()
    for name in ("agreement", "answers_match"):
        assert told[name]["value"] == pytest.approx(5 / 6)
        assert 0 <= told[name]["lo"] < 5 / 6 and told[name]["hi"] == 1


def test_what_is_saved_is_what_was_billed_against_whole_paths_of_today() -> None:
    """Of six paths begun four came back, of 10 tokens each, and two were cancelled after 5."""
    seen = Traffic(change=savings.GatewayChange(savings.Baseline("fixed:8", 8)))
    for _ in range(2):
        seen.add_vote(("7", "7", "7", "8"), "numeric", "policy", 1)
        seen.add_reply(
            savings.RequestCost(1.0, None, 4, tokens=50, cut_tokens=10, stop="policy", cancelled=2)
        )
    told: Any = seen.summary()
    assert (told["requests"], told["paths_per_request"]["value"], told["saved"]["value"]) == (2, 6, 3 / 8)
    assert told["saved"]["of"] == "tokens" and "expected" in told["saved"]["method"]
    assert told["calls"] == {"started": 12, "finished": 8, "cancelled": 4, "after_replies": 0}
    assert told["tokens"] == {"billed": 100, "of_cancelled_calls": 20, "after_replies": 0}
    assert told["change"]["paths"]["value"] == -2 and told["stops"] == {"policy": 2}
    told |= {"policy": "lead_k:3", "drift": None, "warning": None}
    page = pages.page(told)
    assert "6 answers started for each" in page and "38% fewer tokens" in page
    assert "2 upstream calls failed" in page


@pytest.mark.slow
def test_a_plan_from_traffic_is_served_next_time(serve: Serve, tmp_path: Path) -> None:
    script = Script(answer=numbers(0.6))
    rig = serve(script, planless=True, options=Options(shadow_budget=1.0, shadow_paths=8))
    ask_many(rig, 25)
    for _ in range(100):
        if get(rig, "/keff", headers=JSON).json()["drawn_on"] >= 20:
            break
        ask_many(rig, 20)
    reply = get(rig, "/keff/plan")
    assert reply.status_code == 200, reply.text
    (tmp_path / "plan.json").write_text(reply.text)
    plan = Plan.read(tmp_path / "plan.json")
    again = serve(script, plan=plan)
    body = {"model": "m", "messages": [{"role": "user", "content": "q? Final answer: <number>"}], "seed": 0}
    assert again.post(body).json()["keff"]["policy"] == plan.policy
    poem = Script(answer=lambda *_: "A long poem about\nthe sea and all the ships on it.")
    assert serve(poem, plan=plan).post(body).json()["keff"]["stop"] == "free_text"


def test_the_operators_pages_need_the_operators_token(serve: Serve) -> None:
    rig = serve(planless=True, options=Options(token="client", admin_token="boss"))
    basic = base64.b64encode(b"me:boss").decode()
    for path, good in (("/keff", 200), ("/keff/plan", 409)):
        assert get(rig, path).status_code == 401
        assert get(rig, path, headers={"authorization": "Bearer client"}).status_code == 401
        assert get(rig, path, headers={"authorization": "Basic !"}).status_code == 401
        assert get(rig, path, headers={"authorization": "Bearer boss"}).status_code == good
        assert get(rig, path, headers={"authorization": f"Basic {basic}"}).status_code == good
    assert rig.post(headers={"authorization": "Bearer boss"}).status_code == 401
    without = serve(planless=True, options=Options(token="client"))
    assert get(without, "/keff", headers={"authorization": "Bearer client"}).status_code == 403
    open_ = serve(planless=True)
    assert get(open_, "/keff").status_code == 200
    assert get(open_, "/keff", headers={"host": "evil.example"}).status_code == 403


def test_means_are_those_of_the_field() -> None:
    mean = Mean()
    assert mean.interval() is None
    for value in (1.0, 2.0, 3.0, 6.0):
        mean.add(value)
    interval = mean.interval()
    assert interval is not None and interval.hi is not None
    assert interval.value == 3
    # The sample variance is 14/3: standard error sqrt(14/12).
    assert interval.hi - interval.value == pytest.approx(1.96 * (14 / 12) ** 0.5)


def test_the_page_warns_where_answers_never_match_and_escapes_what_it_shows(serve: Serve) -> None:
    script = Script(answer=lambda _, seed: f"Final answer: {seed * 7919 % 9973}")
    rig = serve(script, planless=True, policy="fixed:3")
    for number in range(5):
        rig.post({"model": "m", "messages": [{"role": "user", "content": "How many?"}], "seed": number * 10})
    page = get(rig, "/keff").text
    assert "votes mean little" in page
    assert get(rig, "/keff", headers=JSON).json()["warning"] in page.replace("&#x27;", "'")
    drift = {"requests": 1, "alarms": {"<s>": True}}
    hostile = {"policy": "<b>", "warning": "<em>", "stops": {"<u>": 1}, "servers": {"<a>": "<q>"}}
    shown = pages.page(Traffic().summary() | hostile | {"drift": drift})
    assert not any(tag in shown for tag in ("<b>", "<em>", "<u>", "<s>", "<a>", "<q>"))


@pytest.mark.slow
def test_rules_that_may_stop_at_one_path_are_profiled_on_requests_that_are_drawn_on(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic, "ENOUGH", 10)
    options = Options(shadow_budget=1.0, shadow_paths=8)
    script = Script(answer=numbers(0.8))
    rig = serve(script, planless=True, policy="adaptive_consistency:0.6", options=options)
    assert rig.ledger.few_shadows
    ask_many(rig, 80)
    until(lambda: rig.monitor is not None)
    assert rig.monitor is not None
    assert (rig.monitor.shadow_only, rig.monitor.m) == (True, 4)
    drawn = rig.metric('keff_paths_total{became="shadow"}')
    seen = rig.monitor.seen
    ask_many(rig, 20)
    until(lambda: rig.monitor is not None and rig.monitor.seen > seen)
    assert rig.metric('keff_paths_total{became="shadow"}') > drawn


def test_free_text_is_nothing_to_compare_a_learned_profile_with() -> None:
    policy = policy_of_plan("lead_k:3")
    profile = profile_of([("a", "a", "a"), ("a", "b", "a")] * 20, 3)
    for learned, seen in ((True, 1), (False, 2)):
        monitor = Monitor(Plan(policy="lead_k:3", estimates={}, profile=profile), policy)
        ledger = TrafficLedger(policy=policy, monitor=monitor, learned=learned)
        ledger.add_vote((None,), None, "free_text", 0, regular=True)
        ledger.add_vote(("a", "a", "a"), "text", "policy", 0, regular=True)
        assert monitor.seen == seen
