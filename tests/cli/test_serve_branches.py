"""``keff serve`` with a plan of branches: what files, prices and keys say, and clear refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="pip install 'keff[serve]'")

from keff.cli._serve_options import key_names, served_plan
from keff.cli.serve import command
from keff.errors import UsageError
from keff.plan import BranchPlan, Plan
from keff.sampling.cost import Price

CASCADE = "cascade:small(lead_k:2,cap=3)/large(fixed:1)"


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    names = ("small", "large")
    compared = [{"name": name} for name in (*names, "other")]
    made = Plan(
        policy=CASCADE,
        space="numeric",
        estimates={"branches": compared},
        branches=tuple(BranchPlan(name=name) for name in names),
    )
    made.write(tmp_path / "plan.json")
    return tmp_path / "plan.json"


def branch(folder: Path, name: str, text: str) -> Path:
    file = folder / f"{name}.toml"
    file.write_text(text)
    return file


def test_files_and_prices_say_how_branches_are_drawn(plan: Path, tmp_path: Path) -> None:
    files = [
        branch(tmp_path, "small", 'base_url = "localhost:8000"\ntemperature = 0.2\nk = 8\n'),
        branch(tmp_path, "b", 'name = "large"\nmodel = "m"\n[engine_option]\napi_key_env = "KEY"\n'),
        branch(tmp_path, "other", 'base_url = "localhost:8001"\n'),
    ]
    prices = {"small": Price(prompt=1, output=2), "m": Price(prompt=3, output=4)}
    small, large = served_plan(Plan.read(plan), files, prices).branches
    assert (small.upstream, small.temperature) == ("http://localhost:8000/v1", 0.2)
    assert (large.model, large.key_env, large.upstream) == ("m", "KEY", None)
    assert (small.prompt_price, small.output_price, large.output_price) == (1, 2, 4)
    assert key_names(served_plan(Plan.read(plan), files, None)) == ["KEY"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('name = "huge"', "no branch huge"),
        ("temperature = -1", "temperature"),
        ("temperature = [", "not TOML"),
        ('base_url = "ftp://x"', "not an http address"),
    ],
)
def test_files_that_do_not_fit_end_in_one_line(plan: Path, tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        served_plan(Plan.read(plan), [branch(tmp_path, "small", text)], None)
    with pytest.raises(UsageError, match="no price for branch large"):
        served_plan(Plan.read(plan), [], {"small": Price(prompt=1, output=2)})


def test_what_cannot_be_served_is_refused(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match="small names no upstream: give --branch FILE"):
        command(upstream=None, plan=plan, check=True)
    with pytest.raises(UsageError, match="--upstream URL"):
        command(upstream=None, check=True)
    with pytest.raises(UsageError, match="needs --fallback"):
        command(upstream=["http://x"], set=["fallback_key_env=KEY"], check=True)
    with pytest.raises(UsageError, match="a plan with branches"):
        command(upstream=["http://x"], branch=[tmp_path / "small.toml"], check=True)
    keyed = branch(tmp_path, "small", 'base_url = "localhost:8000"\nkey_env = "SMALL_KEY"\n')
    with pytest.raises(UsageError, match="SMALL_KEY"):
        command(upstream=["http://x"], plan=plan, branch=[keyed], check=True)
    monkeypatch.setenv("SMALL_KEY", "secret")
    command(upstream=["http://x"], plan=plan, branch=[keyed], check=True)
    told = json.loads(capsys.readouterr().out)
    assert told["branches"] == {"small": "http://localhost:8000/v1", "large": "http://x/v1"}
