"""A plan of several branches, served: who is asked, what it costs, and what happens when one is down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from fault_server import Script, running
from gateway_rig import QUESTION, Options, Rig, gateway
from keff.answers.parts import workers
from keff.errors import PlanError, UsageError
from keff.gateway.http.request import with_prompt
from keff.gateway.upstream.fleet import same_model
from keff.plan import BranchPlan, Plan
from keff.sampling.cost import Price
from raw_server import given, raw_server

CASCADE = "cascade:small(lead_k:2,cap=3)/large(lead_k:2,cap=4),keep=fresh"
UNREACHABLE = "http://127.0.0.1:9/v1"


def says(*answers: int) -> Any:
    """Answer by the path's seed, in turn."""
    return lambda _, seed: f"The final answer is {answers[seed % len(answers)]}"


@dataclass
class Two:
    """A gateway before two servers."""

    rig: Rig
    small: Script
    large: Script


@dataclass
class Wish:
    """What a test asks for."""

    policy: str = CASCADE
    space: str = "numeric"
    small: Script = field(default_factory=lambda: Script(answer=says(1, 2, 3), models=("small-1b",)))
    large: Script = field(default_factory=lambda: Script(answer=says(7), models=("large-70b",)))
    options: Options = field(default_factory=Options)
    small_fields: dict[str, Any] = field(default_factory=dict[str, Any])
    large_fields: dict[str, Any] = field(default_factory=dict[str, Any])


@contextmanager
def two(wish: Wish | None = None) -> Iterator[Two]:
    wish = wish or Wish()
    with ExitStack() as stack:
        small, large = (stack.enter_context(running(script)) for script in (wish.small, wish.large))
        branches = (
            BranchPlan(
                **{
                    "name": "small",
                    "model": "small-1b",
                    "upstream": small,
                    "prompt_price": 1,
                    "output_price": 1,
                }
                | wish.small_fields
            ),
            BranchPlan(
                **{
                    "name": "large",
                    "model": "large-70b",
                    "upstream": large,
                    "prompt_price": 9,
                    "output_price": 9,
                }
                | wish.large_fields
            ),
        )
        plan = Plan(policy=wish.policy, space=wish.space, estimates={}, branches=branches)
        keys = {"LARGE_KEY": "large-secret"}
        rig = stack.enter_context(gateway(None, plan, options=wish.options, keys=keys))
        yield Two(rig, wish.small, wish.large)


def test_a_question_that_the_small_one_leaves_open_goes_to_the_large_one() -> None:
    with two() as served:
        told = served.rig.post({"model": "keff", "messages": QUESTION, "seed": 0}).json()["keff"]
    assert told["answer"] == "7" and told["escalated"] and told["settled_by"] == "large"
    small, large = told["branches"]
    # A lead of two is out of reach after two different answers and one path to go.
    assert (small["name"], small["paths"], large["name"], large["paths"]) == ("small", 2, "large", 2)
    assert {body["model"] for body in served.small.requests} == {"small-1b"}
    assert {body["model"] for body in served.large.requests} == {"large-70b"}
    dollars = (small["prompt_tokens"] + small["completion_tokens"]) / 1e6
    assert small["dollars"] == pytest.approx(dollars)
    assert told["cost"]["dollars"] == pytest.approx(small["dollars"] + large["dollars"])
    assert told["stale_plan"] == []


@pytest.mark.skipif(not workers.available(), reason="reads with the extra: pip install 'keff[math]'")
@pytest.mark.parametrize("keep", ["votes", "fresh"])
@pytest.mark.parametrize("unread", [0, 2])
def test_a_lead_that_unread_answers_could_turn_goes_to_the_large_one(keep: str, unread: int) -> None:
    """The small one's answers are two that take longer than there is time, and two that agree."""
    # Seconds of work, whether or not the process that reads them runs already.
    slow = [rf"\boxed{{((x+{800 + 10 * place + len(keep)})^{{50}}+1)^{{50}}}}" for place in range(unread)]
    answers = [*slow, *[r"\boxed{7}"] * (4 - unread)]
    wish = Wish(
        policy=f"cascade:small(lead_k:2,cap=4)/large(fixed:3),keep={keep}",
        space="math",
        small=Script(answer=lambda _, seed: answers[seed % 4], models=("small-1b",)),
        large=Script(answer=lambda *_: r"\boxed{7}", models=("large-70b",)),
        options=Options(reading_seconds=1e-6),
    )
    with two(wish) as served:
        told = served.rig.post({"messages": QUESTION, "seed": 0}).json()["keff"]
    assert (told["answer"], told["unread"], told["escalated"]) == ("7", unread, unread > 0)
    assert [branch["paths"] for branch in told["branches"]] == ([4, 3] if unread else [2])
    # Two unread answers turn nothing against five votes; of fresh votes a single one counts as much as all.
    assert told["undecided_by"] == ("unread" if unread and keep == "fresh" else None)


def test_what_a_branch_costs_by_the_path_is_told_as_it_is_charged() -> None:
    free = {"prompt_price": None, "output_price": None}
    priced = Options(prices={"small-1b": Price(path=0.5), "large-70b": Price(path=2.0)})
    with two(Wish(options=priced, small_fields=free, large_fields=free)) as served:
        told = served.rig.post({"messages": QUESTION, "seed": 0}).json()["keff"]
        assert [branch["dollars"] for branch in told["branches"]] == [1.0, 4.0]
        assert told["cost"]["dollars"] == 5.0 == served.rig.metric("keff_dollars_total")


def test_a_question_that_the_small_one_settles_stays_there() -> None:
    with two(Wish(small=Script(answer=says(5)))) as served:
        told = served.rig.post({"messages": QUESTION}).json()["keff"]
    assert told["answer"] == "5" and not told["escalated"] and told["settled_by"] == "small"
    assert [branch["name"] for branch in told["branches"]] == ["small"]
    assert not served.large.requests


def test_metrics_say_what_each_branch_did() -> None:
    with two() as served:
        for _ in range(2):
            told = served.rig.post({"messages": QUESTION, "seed": 0}).json()["keff"]
        count = served.rig.metric
        for branch in told["branches"]:
            label = f'{{branch="{branch["name"]}"}}'
            assert count(f"keff_branch_paths_total{label}") == 2 * branch["paths"]
            assert count(f"keff_branch_dollars_total{label}") == pytest.approx(2 * branch["dollars"])
            tokens = 2 * (branch["prompt_tokens"] + branch["completion_tokens"])
            assert count(f'keff_branch_tokens_total{{branch="{branch["name"]}"') == tokens
            assert count(f"keff_branch_seconds_total{label}") > 0
            assert count(f"keff_branch_up{label}") == 1
        assert (
            count("keff_branch_escalations_total")
            == count('keff_branch_escalations_total{branch="large"}')
            == 2
        )
        assert count("keff_branch_settled_total") == count('keff_branch_settled_total{branch="large"}') == 2
    with two(Wish(large_fields={"upstream": UNREACHABLE})) as served:
        served.rig.post({"messages": QUESTION, "seed": 0})
        assert served.rig.metric('keff_branch_failures_total{branch="large"}') == 6
        assert served.rig.metric('keff_branch_up{branch="large"}') == 0
        assert served.rig.metric('keff_branch_up{branch="small"}') == 1


def test_weighted_votes_of_a_mix() -> None:
    policy = "mix:small(k=3,weight=1)/large(k=1,weight=2.4)"
    with two(Wish(policy, small=Script(answer=says(5)))) as served:
        told = served.rig.post({"messages": QUESTION}).json()["keff"]
    assert told["answer"] == "7" and told["votes"] == {"5": 3, "7": 1}
    assert told["weight"] == {"value": pytest.approx(2.4 / 3.4), "kind": "weighted_share"}
    assert told["share"] == pytest.approx(2.4 / 3.4)
    assert not told["escalated"]


def test_a_branch_that_is_down_is_skipped_and_the_reply_says_so() -> None:
    with two(Wish(large_fields={"upstream": UNREACHABLE})) as served:
        first = served.rig.post({"messages": QUESTION, "seed": 0}).json()["keff"]
        again = served.rig.post({"messages": QUESTION, "seed": 0})
        second = again.json()["keff"]
        calls = len(served.small.requests)
        page = served.rig.url.removesuffix("/v1") + "/keff"
        state = served.rig.client()._client.get(page, headers={"accept": "application/json"}).json()
    assert state["branches"]["small"] == "up" and state["branches"]["large"].startswith("down: ")
    assert first["answer"] == "1" and first["settled_by"] == "small" and first["failed"] == 6
    down = {branch["name"]: branch["down"] for branch in first["branches"]}
    assert down["small"] is None and "cannot be reached" in down["large"]
    # The first stage did not settle it, so its votes are all that the answer rests on.
    share = {"value": first["share"], "kind": "vote_share", "without": ["large"]}
    assert again.headers["x-keff-branch-down"] == "large" and first["weight"] == second["weight"] == share
    # Known to be down, it is not asked again.
    assert second["answer"] == "1" and second["failed"] == 4 and "is down" in second["branches"][1]["down"]
    assert calls == 4


def test_a_branch_that_fails_is_given_up_once_for_its_paths_and_the_reply_says_so() -> None:
    """Every call to it meets an error that may pass: after the first two its paths are tried once each."""
    with two(Wish(large=Script(models=("large-70b",), fault=lambda *_: "500"))) as served:
        reply = served.rig.post({"messages": QUESTION, "seed": 0})
    told, large = reply.json()["keff"], len(served.large.requests)
    tries = 1 + Options().replacements
    assert tries + 3 <= large <= 2 * tries + 2
    assert told["failed"] == large
    assert reply.headers["x-keff-branch-down"] == "large"
    assert told["weight"]["without"] == ["large"]
    assert "500" in told["branches"][1]["down"] and told["branches"][0]["down"] is None


def test_a_first_branch_that_is_down_leaves_the_question_to_the_next() -> None:
    with two(Wish(small_fields={"upstream": UNREACHABLE})) as served:
        told = served.rig.post({"messages": QUESTION}).json()["keff"]
    assert told["answer"] == "7" and told["votes"] == {"7": 2} and told["paths"] == 2


def test_a_branch_that_is_down_fails_the_request_where_none_may_be_skipped() -> None:
    with two(Wish(large_fields={"upstream": UNREACHABLE}, options=Options(branch_down="fail"))) as served:
        reply = served.rig.post({"messages": QUESTION, "seed": 0})
        alone = served.rig.post({"messages": QUESTION, "seed": 0, "keff": {"policy": "off"}})
    assert reply.status_code == 502 and "branch large" in reply.json()["error"]["message"]
    assert alone.status_code == 200


def test_nobody_there_is_an_error_and_not_an_answer() -> None:
    gone = {"upstream": UNREACHABLE}
    with two(Wish(small_fields=gone, large_fields=gone)) as served:
        reply = served.rig.post({"messages": QUESTION})
        assert reply.status_code == 502
        ready = served.rig.client()._client.get(served.rig.url.removesuffix("/v1") + "/readyz")
    assert ready.status_code == 503


def test_a_server_that_answers_under_another_name_is_said() -> None:
    # The small one agrees with itself: the large one is not asked.
    with (
        raw_server(lambda *_: given(model="other-model")) as url,
        two(Wish(small_fields={"upstream": url})) as served,
    ):
        told = served.rig.post({"messages": QUESTION, "seed": 0}).json()["keff"]
    assert [branch["answered_as"] for branch in told["branches"]] == ["other-model"]


@pytest.mark.parametrize(
    ("asked", "answered", "same"),
    [
        ("gpt-4o", "gpt-4o-2024-08-06", True),
        ("Qwen/Qwen3-8B", "Qwen3-8B", True),
        ("small.gguf", "/models/small.gguf", True),
        ("llama3", "llama3:8b", True),
        ("gpt-4o", "gpt-4o-mini", False),
        ("a", "b", False),
    ],
)
def test_names_of_one_model(asked: str, answered: str, same: bool) -> None:
    assert same_model(asked, answered) is same


def test_each_branch_has_its_key_and_the_client_s_goes_nowhere_else() -> None:
    with two(Wish(large_fields={"key_env": "LARGE_KEY"})) as served:
        served.rig.post({"messages": QUESTION, "seed": 0}, headers={"authorization": "Bearer client"})
    assert all("authorization" not in headers for headers in served.small.headers)
    assert {headers["authorization"] for headers in served.large.headers} == {"Bearer large-secret"}


def test_a_request_s_own_policy_asks_the_first_branch_or_those_it_names() -> None:
    with two() as served:
        plain = served.rig.post({"messages": QUESTION, "keff": {"k": 2}}).json()["keff"]
        own = served.rig.post({"messages": QUESTION, "keff": {"policy": "cascade:large(fixed:1)"}}).json()
        unknown = served.rig.post({"messages": QUESTION, "keff": {"policy": "cascade:huge(fixed:1)"}})
        events = list(
            served.rig.client().chat.completions.create(
                model="keff", messages=QUESTION, stream=True, extra_body={"keff": {"policy": "off"}}
            )
        )
    assert [branch["name"] for branch in plain["branches"]] == ["small"] and plain["paths"] == 2
    assert own["keff"]["answer"] == "7" and own["keff"]["settled_by"] == "large"
    assert unknown.status_code == 400
    assert "The final answer is" in "".join(
        event.choices[0].delta.content or "" for event in events if event.choices
    )


def test_prompts_and_sampling_are_branches_on_one_server() -> None:
    careful = {"system": "Be careful.", "template": "Think first.", "temperature": 0.2, "max_tokens": 99}
    with two(Wish(large_fields=careful)) as served:
        messages = [{"role": "system", "content": "Client."}, *QUESTION]
        served.rig.post({"messages": messages, "seed": 0, "temperature": 1, "max_completion_tokens": 7})
    small, large = served.small.requests[0], served.large.requests[0]
    assert small["messages"] == messages and small["temperature"] == 1 and small["max_completion_tokens"] == 7
    assert large["messages"][0] == {"role": "system", "content": "Be careful."}
    assert large["messages"][1]["content"] == f"Think first.\n\n{QUESTION[0]['content']}"
    assert large["temperature"] == 0.2 and large["max_tokens"] == 99
    assert len(large["messages"]) == 2 and "max_completion_tokens" not in large


def test_a_template_may_hold_the_question_in_text_and_in_parts() -> None:
    told = with_prompt([{"role": "user", "content": "Q?"}], None, "Before {question} after")
    assert told == [{"role": "user", "content": "Before Q? after"}]
    image = {"type": "image_url", "image_url": {"url": "x"}}
    told = with_prompt([{"role": "user", "content": [image]}], None, "Before {question} after")
    assert told[0]["content"] == [
        {"type": "text", "text": "Before "},
        image,
        {"type": "text", "text": " after"},
    ]


def test_plans_that_cannot_be_served() -> None:
    branch = BranchPlan(name="small")
    with pytest.raises(PlanError, match="large, which the plan does not have"):
        plan = Plan(policy=CASCADE, space="numeric", estimates={}, branches=(branch,))
        with gateway(UNREACHABLE, plan):
            pass
    with pytest.raises(UsageError, match="small names no upstream"):
        plan = Plan(policy="cascade:small(fixed:1)", space="numeric", estimates={}, branches=(branch,))
        with gateway(None, plan):
            pass
    with pytest.raises(UsageError, match="no key is given for NO_KEY"):
        keyed = BranchPlan(name="small", key_env="NO_KEY")
        plan = Plan(policy="cascade:small(fixed:1)", space="numeric", estimates={}, branches=(keyed,))
        with gateway(UNREACHABLE, plan):
            pass
