"""``keff mix``, ``keff join`` and ``keff pilot --branch``: the contract, the plan, and clear refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.progress import Progress

import command_line
from keff.plan import Plan
from keff.policy import parse_policy
from keff.sampling.store import Run

pytestmark = pytest.mark.slow

MODELS = {"small": (0.65, 100), "large": (0.9, 900)}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """40 questions x 6 paths of two models whose difficulties go together."""
    folder = tmp_path_factory.mktemp("mix")
    rng = np.random.default_rng(1)
    difficulty = rng.normal(0, 1, 40)
    files: list[Path] = []
    for name, (p, tokens) in MODELS.items():
        theta = 1 / (1 + np.exp(-(np.log(p / (1 - p)) * 1.3 + difficulty)))
        rows: list[dict[str, Any]] = [
            {
                "id": str(i),
                "gold_answer": "0",
                "model": name,
                "all_answers": [str(a) for a in np.where(rng.random(6) < theta[i], 0, rng.integers(1, 4, 6))],
                "all_tokens": rng.integers(tokens // 2, tokens, 6).tolist(),
            }
            for i in range(40)
        ]
        file = folder / f"{name}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        files.append(file)
    return files


def test_the_json_contract_and_the_plan(logs: list[Path], tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    done = command_line.keff("mix", *logs, "--cap", "6", "--json", "-o", plan)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [branch["name"] for branch in found["branches"]] == ["small", "large"]
    assert found["n"] == 40 and found["cost_unit"] == "tokens" and len(found["c_between"]) == 2
    advice = found["recommendation"]
    written = Plan.read(plan)
    assert written.schema_version == 2 and written.policy == advice["policy"]
    assert [branch.name for branch in written.branches] == advice["branches"]
    parse_policy(written.policy)


def test_the_table_names_the_recommendation(logs: list[Path]) -> None:
    done = command_line.keff("mix", *logs, "--cap", "6")
    assert done.returncode == 0, done.stderr
    assert "recommended" in done.stdout and "corrected for picking the best of many" in done.stdout


def test_the_page_holds_the_numbers_and_no_script(logs: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("jinja2", reason="pip install 'keff[report]'")
    hostile = tmp_path / "hostile.jsonl"
    rows = [json.loads(line) for line in logs[0].read_text().splitlines()]
    hostile.write_text("".join(json.dumps(row | {"model": "<script>x</script>"}) + "\n" for row in rows))
    page = tmp_path / "page.html"
    done = command_line.keff("mix", hostile, logs[1], "--cap", "6", "--json", "--report", page)
    assert done.returncode == 0, done.stderr
    found, text = json.loads(done.stdout), page.read_text("utf-8")
    assert "<script" not in text and "http" not in text.replace("http-equiv", "")
    assert found["recommendation"]["policy"] in text and found["recommendation"]["verdict"] in text
    assert "recommended</text>" in text and "This pilot took" in text
    wide = text.partition("The plan by what a right answer is worth")[2].partition("</svg>")[0]
    assert wide.count("<title>") == len(found["by_worth"]), "each step says which plan it is"
    assert {tuple(plan["branches"]) for plan in found["singles"]} == {
        (branch["name"],) for branch in found["branches"]
    }
    missing = command_line.keff("mix", *logs, "--cap", "6", "--report", tmp_path / "no" / "page.html")
    assert missing.returncode == 2 and "page.html" in missing.stderr


def test_a_joined_record_gives_the_same(logs: list[Path], tmp_path: Path) -> None:
    joined = tmp_path / "joined.jsonl"
    assert command_line.keff("join", *logs, "-o", joined).returncode == 0
    apart = json.loads(command_line.keff("mix", *logs, "--cap", "6", "--json").stdout)
    together = json.loads(command_line.keff("mix", joined, "--cap", "6", "--json").stdout)
    assert together["recommendation"]["policy"] == apart["recommendation"]["policy"]
    assert together["c_between"] == apart["c_between"]


def test_prices_of_some_branches_only(logs: list[Path], tmp_path: Path) -> None:
    table = tmp_path / "prices.toml"
    table.write_text('["small"]\nprompt = 0\noutput = 1\n')
    done = command_line.keff("mix", *logs, "--prices", table)
    assert done.returncode == 2 and "no price for large" in done.stderr


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--value-per-correct", "0.1"), "--prices"),
        (("--budget-dollars", "1"), "--prices"),
        (("--value-per-correct", "0.1", "--cost-per-path", "0"), "cost-per-path 0"),
        (("--cost-per-path", "-1"), "greater than or equal to 0"),
        (("--prices", "table", "--cost-per-path", "1"), "keep one"),
        (("--prices", "negative"), "greater than or equal to 0"),
    ],
)
def test_bad_prices_end_in_one_line(
    logs: list[Path], tmp_path: Path, more: tuple[str, ...], words: str
) -> None:
    for name, price in (("table", 1), ("negative", -1)):
        rows = (f'["{model}"]\nprompt = 0\noutput = {price}\n' for model in MODELS)
        (tmp_path / name).write_text("".join(rows))
    given = [str(tmp_path / word) if word in ("table", "negative") else word for word in more]
    done = command_line.keff("mix", *logs, *given)
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


def test_prices_are_looked_at_before_a_pilot_draws(tmp_path: Path) -> None:
    wishes = two_branches(tmp_path, 20)
    run, prices = tmp_path / "run", tmp_path / "prices.toml"
    prices.write_text('["small"]\npath = 1\n')
    for more, words in (
        (("--prices", prices), "no price for large"),
        (("--value-per-correct", "1"), "--prices"),
    ):
        done = command_line.keff("pilot", *wishes, *more)
        assert done.returncode == 2 and words in done.stderr and not run.exists()


def test_a_pilot_of_two_branches_has_one_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wishes, run = two_branches(tmp_path, 24), tmp_path / "run"
    shown = list[tuple[int, int]]()
    update = Progress.update

    def note(bar: Progress, *of: Any, **said: Any) -> None:
        update(bar, *of, **said)
        assert len(bar.tasks) == 1
        shown.append((said["completed"], said["total"]))

    monkeypatch.setattr(Progress, "update", note)
    done = command_line.keff("pilot", *wishes, "--n", "24", "--json", "--keep-all")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (
        found["n"] == 24
        and found["dropped"] == []
        and [branch["name"] for branch in found["branches"]] == ["large", "small"]
    )
    assert {folder.name for folder in run.iterdir()} == {"small", "large"}
    # It counts the paths of both branches towards all of them, and never goes back.
    paths = 0
    for name in MODELS:
        with Run.open(run / name) as drawn:
            paths += drawn.count()["paths"]
    counted = [completed for completed, _ in shown]
    assert counted == sorted(counted) and shown[-1] == (paths, paths)


def test_a_beaten_branch_is_dropped_said_and_left_when_the_pilot_goes_on(tmp_path: Path) -> None:
    """Small is right in half of the paths of large and costs ten times as much: 12 questions tell."""
    prices, run = tmp_path / "prices.toml", tmp_path / "run"
    prices.write_text('["small"]\nprompt = 0\noutput = 10\n["large"]\nprompt = 0\noutput = 1\n')
    wishes = ["pilot", *two_branches(tmp_path, 30, p=(0.4, 0.95)), "--prices", prices]
    done = command_line.keff(*wishes, "--n", "20", "--json")
    assert done.returncode == 0, done.stderr
    assert "drops small after 12 questions: large" in done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    (dropped,) = found["dropped"]
    assert [branch["name"] for branch in found["branches"]] == ["large"] and found["n"] == 20
    assert (dropped["name"], dropped["by"], dropped["questions"]) == ("small", "large", 12)
    assert dropped["difference"]["hi"] < 0 and dropped["cost_ratio"] > 5
    assert found["recommendation"]["verdict"] == "one branch is enough"
    longer = command_line.keff(*wishes, "--n", "30", "--json")
    again = json.loads(longer.stdout.splitlines()[-1])
    assert again["n"] == 30 and again["dropped"][0]["questions"] == 12
    # What lies there is read alike by mix, and --keep-all draws the rest.
    mixed = json.loads(
        command_line.keff("mix", run / "small", run / "large", "--prices", prices, "--json").stdout
    )
    assert mixed["dropped"] == again["dropped"] and mixed["pilot_cost"] == pytest.approx(again["pilot_cost"])
    every = json.loads(
        command_line.keff(*wishes, "--n", "30", "--keep-all", "--json").stdout.splitlines()[-1]
    )
    assert every["n"] == 30 and len(every["branches"]) == 2 and every["dropped"] == []


def test_the_plan_of_a_pilot_says_how_its_branches_are_drawn(tmp_path: Path) -> None:
    wishes = two_branches(tmp_path, 20)
    for file in tmp_path.glob("*.toml"):
        file.write_text('temperature = 0.3\nsystem = "Add."\n' + file.read_text())
    plan = tmp_path / "plan.json"
    done = command_line.keff("pilot", *wishes, "--n", "20", "-o", plan, "--keep-all")
    assert done.returncode == 0, done.stderr
    for branch in Plan.read(plan).branches:
        assert branch.name in ("small", "large")
        assert branch.temperature == 0.3 and branch.system == "Add."


def test_one_budget_stops_all_branches_level(tmp_path: Path) -> None:
    questions = tmp_path / "q.jsonl"
    rows = [{"id": str(i), "question": f"{i}+{i}?", "answer": str(2 * i)} for i in range(64)]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    files: list[object] = []
    for name, seed in (("a", 1), ("b", 2)):
        file = tmp_path / f"{name}.toml"
        file.write_text(f'engine = "fake"\nmodel = "{name}"\n[engine_option]\nseed = {seed}\n')
        files += ["--branch", file]
    wishes = [
        "pilot", questions, "--answer-space", "numeric", *files, "--run", tmp_path / "run",
        "--n", "64", "--token-budget", "6000", "--concurrency", "1", "--json",
    ]  # fmt: skip
    done = command_line.keff(*wishes)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["n"] >= 14
    # It goes on with what is left, which is nothing: one budget for both sessions. A larger one draws on.
    held = tokens_of(tmp_path / "run")
    assert 6000 <= held < 6500
    again = command_line.keff(*wishes)
    assert again.returncode == 0 and "by all branches together" in again.stderr
    assert "token budget of 6,000 is spent (6," in again.stderr
    assert tokens_of(tmp_path / "run") == held
    more = command_line.keff(*wishes[:-4], "8000", *wishes[-3:])
    assert more.returncode == 0 and 8000 <= tokens_of(tmp_path / "run") < 8500


def tokens_of(pilot: Path) -> int:
    """Count the tokens that the runs of a pilot hold."""
    total = 0
    for folder in pilot.iterdir():
        with Run.open(folder) as run:
            held = run.count()
        total += held["tokens"] + held["prompt_tokens"]
    return total


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "not TOML"),
        ('name = "a b"', "may hold letters"),
        ("colour = 1", "colour: "),
        ('k = "8"', "k: "),
        ("k = true", "k: "),
        ("engine = 1e999", "engine: "),
        ("temperature = nan", "temperature: "),
        ("engine_option = []", "engine_option: "),
    ],
)
def test_bad_branch_files_end_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "branch.toml"
    file.write_text(text)
    done = command_line.keff("pilot", "starter", "--branch", file, "--branch", file, "--run", tmp_path / "r")
    assert done.returncode == 2 and words in done.stderr


def two_branches(tmp_path: Path, n: int, p: tuple[float, float] = (0.6, 0.9)) -> list[object]:
    questions = tmp_path / "q.jsonl"
    rows = [{"id": str(i), "question": f"{i}+{i}?", "answer": str(2 * i)} for i in range(n)]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    files: list[object] = []
    for name, right in zip(("small", "large"), p, strict=True):
        file = tmp_path / f"{name}.toml"
        file.write_text(
            f'engine = "fake"\nmodel = "{name}"\n[engine_option]\np = {right}\nseed = {len(name)}\n'
        )
        files += ["--branch", file]
    return [questions, "--answer-space", "numeric", *files, "--run", tmp_path / "run"]


def test_sampling_under_a_cascade_asks_the_second_branch_less(tmp_path: Path) -> None:
    wishes = ["sample", *two_branches(tmp_path, 30)]
    policy = "cascade:small(lead_k:2,cap=4)/large(fixed:1),keep=fresh"
    done = command_line.keff(*wishes, "--policy", policy, "--json")
    assert done.returncode == 0, done.stderr
    drawn = {name: own["drawn"] for name, own in json.loads(done.stdout)["branches"].items()}
    assert 60 <= drawn["small"] <= 120 and 0 < drawn["large"] < 30
    again = command_line.keff(*wishes, "--policy", policy, "--json")
    assert [own["drawn"] for own in json.loads(again.stdout)["branches"].values()] == [0, 0]


def test_a_cascade_without_its_branches_is_refused(tmp_path: Path) -> None:
    wishes = ["sample", *two_branches(tmp_path, 3)]
    spec = "cascade:small(lead_k:2,cap=4)/other(fixed:1)"
    alone = command_line.keff(*wishes[:4], *wishes[-2:], "--engine", "fake", "--policy", spec)
    assert alone.returncode == 2 and "draws from one model" in alone.stderr
    missing = command_line.keff(*wishes, "--policy", spec)
    assert missing.returncode == 2 and "asks branch other" in missing.stderr
