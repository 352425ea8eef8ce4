"""From a pilot under Adaptive-K to a gateway: K* paths each, and the pilot's templates path by path."""

from __future__ import annotations

import json
from collections import Counter
from itertools import cycle, islice
from pathlib import Path

import pytest

from command_line import keff
from fault_server import Script, running
from gateway_rig import gateway
from keff.errors import PlanError
from keff.plan import BranchPlan, Plan
from keff.policy.spec import PolicySpec

TEMPLATES = ("Think in steps.", "Be brief.", "Check the sum: {question} Now.")


def piloted(folder: Path, url: str, *more: object, k: int = 4, n: int = 24) -> tuple[Plan, Path]:
    """Draw a pilot under the paper's rule and return its plan."""
    questions, plan = folder / "q.jsonl", folder / "plan.json"
    rows = [{"id": str(i), "question": f"{i}+{i}?", "answer": str(i % 10)} for i in range(n)]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = keff(
        "pilot", questions, "--answer-space", "numeric", "--base-url", url, "--run", folder / "run",
        "--n", n, "--k", k, "--rule", "adaptive_k", "--cap", "12", "-o", plan, "--json", *more,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Plan.read(plan), plan


def answer(messages: list[dict[str, object]], seed: int) -> str:
    """Answer by the question: the even ones rightly in most paths, the odd ones in few."""
    text = str(messages[-1]["content"])
    number = int(text.partition("+")[0].split()[-1]) if "+" in text else 0
    right = (seed * 7 + number * 13) % 10 < (8 if number % 2 == 0 else 3)
    return f"The final answer is {number % 10 if right else (number + 1 + seed % 3) % 10}"


def test_a_pilot_is_deployed_at_k_star(tmp_path: Path) -> None:
    script = Script(answer=answer)
    with running(script) as url:
        plan, file = piloted(tmp_path, url)
        star = PolicySpec.parse(plan.policy).value
        assert plan.policy == f"fixed:{star}" and isinstance(star, int) and not plan.branches
        with gateway(url, plan) as rig:
            reply = rig.client().chat.completions.create(
                model="stub", messages=[{"role": "user", "content": "6+6?"}]
            )
            assert reply.model_extra is not None
            assert reply.model_extra["keff"]["paths"] == star
        done = keff(
            "sample", tmp_path / "q.jsonl", "--answer-space", "numeric", "--base-url", url, "--policy", file,
            "--run", tmp_path / "more", "--n", "5", "--json",
        )  # fmt: skip
        assert json.loads(done.stdout)["drawn"] == 5 * star, done.stderr


@pytest.mark.parametrize("policy", [None, "fixed:7", "lead_k:7,cap=7", "curtailed:cap=7,in_flight=3"])
def test_templates_are_served_path_by_path(tmp_path: Path, policy: str | None) -> None:
    (tmp_path / "t.toml").write_text(f"templates = {json.dumps(list(TEMPLATES))}")
    script = Script(answer=answer)
    with running(script) as url:
        more = ("--template", tmp_path / "t.toml", "--templates", "all")
        # Four paths of three templates: the first is drawn once more than the others.
        plan, _ = piloted(tmp_path, url, *more)
        plan = plan.model_copy(update={"policy": policy or plan.policy})
        assert [branch.template for branch in plan.branches] == list(TEMPLATES)
        script.requests.clear()
        with gateway(url, plan) as rig:
            reply = rig.client().chat.completions.create(
                model="stub", messages=[{"role": "user", "content": "6+6?"}]
            )
            assert reply.model_extra is not None
            paths = reply.model_extra["keff"]["paths"]
        asked = Counter[str]()
        for body in script.requests:
            asked[body["messages"][-1]["content"]] += body.get("n", 1)
        framed = [
            text.replace("{question}", "6+6?") if "{question}" in text else f"{text}\n\n6+6?"
            for text in TEMPLATES
        ]
        drawn = asked.total()
        assert drawn >= paths
        assert asked == Counter(islice(cycle(framed), drawn))


@pytest.mark.integration
def test_k_star_is_deployed_on_a_real_model(smollm2: Path, tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="pip install 'keff[llamacpp]'")
    from real_server import real_base_url

    url = real_base_url(smollm2)
    plan, _ = piloted(tmp_path, url, "--max-tokens", "12", n=12)
    star = PolicySpec.parse(plan.policy).value
    with gateway(url, plan, path_seconds=120.0) as rig:
        reply = rig.client().chat.completions.create(
            model="keff", messages=[{"role": "user", "content": "What is 2+2? Answer with a number."}]
        )
    assert reply.model_extra is not None
    assert reply.model_extra["keff"]["paths"] == star


def test_templates_without_their_text_are_refused() -> None:
    plan = Plan(
        policy="fixed:4",
        space="numeric",
        estimates={},
        branches=(BranchPlan(name="slot-0", template="Go."), BranchPlan(name="slot-2")),
    )
    with pytest.raises(PlanError, match="lacks the text of slot-2"), gateway("http://127.0.0.1:9/v1", plan):
        pass
