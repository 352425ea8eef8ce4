"""The demo: a real model on this machine, real workloads beside it, and a decision at the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import keff
from keff.plan import Plan


@pytest.mark.integration
def test_the_demo_ends_in_a_decision_that_its_plan_holds(smollm2: Path, tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    assert smollm2.exists()
    run = tmp_path / "demo-run"
    done = keff("demo", "--run", run, "--n", 6, "--k", 2)
    assert done.returncode == 0, done.stderr
    policy = Plan.read(run / "plan.json").policy
    assert policy in done.stdout
    told = done.stderr.splitlines()
    assert sum(" per question." in line and "keeps" in line for line in told) == 5
    (decision,) = [line for line in told if line.startswith("Decision: ")]
    assert decision.endswith(".")
    again = keff("demo", "--run", run, "--n", 6, "--k", 2, "--json")
    assert json.loads(again.stdout)["recommendation"]["policy"] == policy
    assert "Beside it" not in again.stderr
