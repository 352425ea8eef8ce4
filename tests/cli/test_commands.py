"""The command line as a user meets it: JSON shapes, exit codes, one clear line for bad input."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from command_line import keff
from keff.cli import COMMANDS
from keff.engines import fake

NAMED = (
    "n",
    "k",
    "clusters",
    "p",
    "abstain_rate",
    "c",
    "c_pooled",
    "c_pearson",
    "c_pearson_dropped",
    "agreement",
)
SHAPED = (
    "k_eff",
    "ceiling",
    "k_eff_block",
    "percent_of_ceiling",
    "majority",
    "plurality",
    "bands",
    "predicted",
)
LAST = ("k_star", "decision", "bill", "seconds", "warnings")


def good(*arguments: object, cwd: Path | None = None) -> dict[str, Any]:
    done = keff(*arguments, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


def bad(*arguments: object, cwd: Path | None = None, code: int = 2) -> str:
    done = keff(*arguments, cwd=cwd)
    assert done.returncode == code, (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if line.startswith("keff:")]
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "log.jsonl"
    rows = [
        {
            "id": i,
            "gold_answer": "1",
            # Turned by the row: columns that are always right or always wrong would be different models.
            "all_answers": [["1", "1", "2", "1" if i % 3 else "3"][(i + j) % 4] for j in range(4)],
            "all_tokens": [5, 6, 7, 8],
        }
        for i in range(30)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    file = tmp_path / "q.jsonl"
    rows = [{"id": f"q{i}", "question": f"{i} + 1?", "answer": str(i + 1)} for i in range(20)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.mark.slow
def test_analyze_json_has_every_field_of_the_contract(log: Path) -> None:
    found = good("analyze", log)
    assert set(NAMED + SHAPED + LAST) <= set(found)
    assert (found["n"], found["k"], found["clusters"]) == (30, 4, 30)
    assert found["p"] == pytest.approx((30 * 2 + 20) / 120)
    assert set(found["c"]) == {"value", "lo", "hi", "method"}
    assert list(found["majority"]) == ["1", "2", "3", "4"] == list(found["bands"]["plurality"])
    assert {"8", "16", "32"} <= set(found["predicted"]["beta_binomial"])
    assert found["predicted"]["bounds"]["32"][0] <= found["predicted"]["beta_binomial"]["32"]["value"]
    assert found["k_star"]["k_max"] == 32
    assert found["decision"]["verdict"] in {"vote", "ask once", "undecided"}


@pytest.mark.slow
def test_two_paths_give_runs_and_pool_gives_one(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text(log.read_text())
    assert [run["n"] for run in good("analyze", log, other)["runs"]] == [30, 30]
    pooled = good("analyze", log, other, "--pool")
    assert (pooled["n"], pooled["clusters"]) == (60, 30)


@pytest.mark.parametrize("name", ["questions.csv", "questions.jsonl.gz", "."])
def test_questions_of_another_kind_say_how_they_are_written(tmp_path: Path, name: str) -> None:
    said = bad("sample", name, "--model", "m", "--run", tmp_path / "run")
    assert "data files end in .jsonl (an object a line) or .parquet" in said


def test_logs_of_one_question_each_are_a_table_that_says_how_they_become_one(tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"{i}.json").write_text(json.dumps({"id": i, "gold": "1", "answers": ["1", "2", "1"]}))
    assert "Each of the 3 records has one question" in keff("analyze", tmp_path).stdout
    assert "--seed" in bad("replay", tmp_path / "0.json", "--seed", "-1")
    fitted = bad("replay", tmp_path / "0.json", "pilot_budget:0.98,cap=3")
    assert "record two or more, or name policies that are not fitted" in fitted
    assert "pilot_budget" not in keff("replay", tmp_path / "0.json").stdout
    said = keff("replay", tmp_path / "0.json", "lead_k:2", "--trim", "1").stdout
    assert "1 path" in said and "1 paths" not in said


@pytest.mark.slow
def test_runs_of_one_path_each_become_one_record(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    for j in range(4):
        rows = ({"id": i, "gold": "1", "answer": str(1 + (i * j) % 3 // 2)} for i in range(12))
        (runs / f"run{j}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "--pool joins those of one model" in keff("analyze", runs).stdout
    pooled = good("analyze", runs, "--pool")
    assert (pooled["n"], pooled["k"]) == (12, 4)
    assert "is a folder: name a log in it, or make one of all (keff join" in bad("replay", runs)
    out = tmp_path / "all.jsonl"
    assert good("join", runs, "--pool", "-o", out)["paths"] == 48
    assert good("analyze", out)["p"] == pooled["p"]
    assert good("noise", out)["k"] == 4


def test_without_gold_answers_only_the_label_free_part_is_filled(tmp_path: Path) -> None:
    file = tmp_path / "free.jsonl"
    rows = ({"id": i, "all_answers": list("aabc")} for i in range(20))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = good("analyze", file)
    assert found["p"] is found["c"] is found["plurality"] is None
    assert found["agreement"] == pytest.approx(1 / 6)
    assert "no_gold" in {warning["code"] for warning in found["warnings"]}


@pytest.mark.slow
@pytest.mark.parametrize("answers", ["1111", "2222"])
def test_all_right_or_all_wrong_is_degenerate_and_takes_k_max(tmp_path: Path, answers: str) -> None:
    file = tmp_path / "same.jsonl"
    rows = ({"id": i, "gold_answer": "1", "all_answers": list(answers)} for i in range(20))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = good("analyze", file)
    assert found["c"]["value"] is None
    assert found["k_star"]["paper"] == 32
    assert "degenerate" in {warning["code"] for warning in found["warnings"]}


@pytest.mark.slow
@pytest.mark.parametrize(("n", "answers"), [(1, "1121"), (20, "1")])
def test_one_item_or_one_path_says_that_correlation_cannot_be_known(
    tmp_path: Path, n: int, answers: str
) -> None:
    file = tmp_path / "small.jsonl"
    rows = ({"id": i, "gold_answer": "1", "all_answers": list(answers)} for i in range(n))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = good("analyze", file)
    assert found["c"] is None
    assert "too_few" in {warning["code"] for warning in found["warnings"]}
    assert keff("analyze", file).returncode == 0


@pytest.mark.slow
def test_the_plan_is_written_and_reads_back(log: Path, tmp_path: Path) -> None:
    from keff.plan import Plan

    good("analyze", log, "-o", tmp_path / "plan.json")
    plan = Plan.read(tmp_path / "plan.json")
    assert plan.estimates["n"] == 30
    assert plan.profile is not None


def test_predict_prints_full_precision() -> None:
    found = good("predict", "--p", 0.8, "--c", 0.6, "--k", 8)
    assert found["k_eff"] == pytest.approx(8 / 5.2, rel=1e-15)
    assert found["ceiling"] == pytest.approx(1 / 0.6, rel=1e-15)
    assert {"beta_binomial", "binomial", "k_star", "limit"} <= set(found)


@pytest.mark.slow
def test_sample_pilot_score_and_analyze_work_together(
    questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whether log-probabilities pay takes longer to find out than all else, and is asked elsewhere.
    monkeypatch.setattr(fake, "Logprobs", lambda *_: None)
    run = tmp_path / "run"
    first = good("sample", questions, "--run", run, "--engine", "fake", "--n", 10, "--k", 4)
    assert (first["drawn"], first["kept_before"]) == (40, 0)
    found = good(
        "pilot", questions, "--run", run, "--engine", "fake", "--n", 20, "--k", 8, "-o", tmp_path / "p.json"
    )
    assert (found["n"], found["k"]) == (20, 8)
    assert good("score", run)["scored"] == 160
    again = good("analyze", run)
    assert again == found


def test_a_warning_is_one_line(questions: Path, tmp_path: Path) -> None:
    done = keff("sample", questions, "--run", tmp_path / "r", "--engine", "fake", "--policy", "lead_k:1")
    assert done.returncode == 0
    (line,) = (line for line in done.stderr.splitlines() if "always stops after one path" in line)
    assert line.startswith("keff: note: lead_k:1 ")
    assert ".py" not in done.stderr


@pytest.mark.slow
def test_people_get_a_summary_on_stdout(log: Path) -> None:
    done = keff("analyze", log)
    assert done.returncode == 0
    assert "30 questions x 4 paths" in done.stdout
    assert "Brackets hold 95% intervals" in " ".join(done.stdout.split())
    assert "K* = " in keff("analyze", log, "-v").stdout


def test_list_names_every_plugin() -> None:
    from keff.plugins import summaries

    for kind in ("tasks", "engines", "policies", "logs"):
        found = good("list", kind)[kind]
        assert found == summaries(
            {"tasks": "task", "engines": "engine", "policies": "policy", "logs": "log"}[kind]
        )  # type: ignore[arg-type]
        assert all(found.values())


@pytest.mark.slow
def test_bad_input_is_one_line_and_exit_code_two(questions: Path, log: Path, tmp_path: Path) -> None:
    run = ("--run", tmp_path / "run")
    assert "unknown task 'gsm9k'" in bad("sample", "gsm9k", *run)
    assert "unknown engine 'warp'" in bad("sample", questions, *run, "--engine", "warp")
    assert "does not exist" in bad("analyze", tmp_path / "nothing.jsonl")
    assert "unknown policy" in bad("sample", questions, *run, "--engine", "fake", "--policy", "magic:3")
    assert "name=value" in bad("sample", questions, *run, "--engine", "fake", "--engine-option", "p")
    assert "--trim 99" in bad("analyze", log, "--trim", 99)
    assert "'prose'" in bad("analyze", log, "--answer-space", "prose")
    assert "one aim" in bad("analyze", log, "--retain", 0.9, "--budget", 5)
    assert "--epsilon must be above 0" in bad("analyze", log, "--epsilon", 0)
    assert "--cap must be 1 to 256" in bad("analyze", log, "--cap", 257)
    assert "no such option: --k-max; see keff analyze --help" in bad("analyze", log, "--k-max=16")
    assert "threshold must be a number" in bad("analyze", log, "--format", "inspect_ai:threshold=high")
    assert "scorer=NAME and threshold=NUMBER" in bad("analyze", log, "--format", "csv:sep=;")
    assert "--shard" in bad("sample", questions, *run, "--engine", "fake", "--shard", "5/2")
    broken = tmp_path / "broken.jsonl"
    broken.write_text(log.read_text() + "{oops\n")
    assert "broken.jsonl:31" in bad("analyze", broken)
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert "empty" in bad("analyze", empty)


@pytest.mark.slow
def test_an_unreachable_server_is_one_line_with_its_address(questions: Path, tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/v1"
    line = bad(
        "sample",
        questions,
        "--run",
        tmp_path / "r",
        "--engine",
        "openai",
        "--model",
        "m",
        "--base-url",
        url,
        code=1,
    )
    assert url in line


@pytest.mark.slow
def test_a_corrupt_run_is_one_line(questions: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    good("sample", questions, "--run", run, "--engine", "fake", "--n", 2)
    (run / "paths.sqlite").write_bytes(b"garbage" * 1000)
    assert "no longer match. Restore the folder from a copy" in bad("analyze", run)


def test_version_and_help() -> None:
    assert keff("--version").stdout == f"keff {metadata.version('keff')}\n"
    shown = keff("--help").stdout
    assert re.findall(r"^  (\w+) +[A-Z]", shown, re.MULTILINE) == COMMANDS
    assert max(map(len, shown.splitlines())) <= 80
    # Without a command it is wrong use, and shows the same.
    alone = keff()
    assert (alone.returncode, alone.stderr.strip()) == (2, shown.strip())


def test_what_is_required_and_missing_is_named() -> None:
    assert "missing option '--k'; see keff predict --help" in bad("predict", "--p", 0.6, "--c", 0.3)
    assert "missing argument" in bad("read")


@pytest.mark.parametrize("command", [(), ("analyze",), ("serve",), ("list",)])
def test_wrong_use_is_one_line_and_h_is_help(command: tuple[str, ...]) -> None:
    named = " ".join(("keff", *command))
    assert bad(*command, "--xyzzy") == f"keff: no such option: --xyzzy; see {named} --help"
    short, long = keff(*command, "-h"), keff(*command, "--help")
    assert (short.returncode, short.stdout) == (0, long.stdout)


def test_a_value_out_of_bounds_is_one_line_in_plain_words() -> None:
    assert "'--p' must be less than or equal to 1; see keff predict --help" in bad("predict", "--p", 2)
    assert "no such command 'analyse'. Did you mean 'analyze'?" in bad("analyse")


def test_the_overview_imports_no_library() -> None:
    code = (
        "import sys; bare = set(sys.modules); sys.argv = ['keff', '--help']; "
        "from keff.__main__ import main; main(); "
        "print(*{name.partition('.')[0] for name in set(sys.modules) - bare})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "keff" in loaded and loaded <= sys.stdlib_module_names | {"keff"}
    assert not loaded & {"typing", "re", "inspect"}


@pytest.mark.slow
def test_real_records_are_analysed(recorded: list[Path]) -> None:
    files = [file for file in recorded[::15] if file.stat().st_size < 400_000]
    runs = good("analyze", *files)["runs"]
    assert len(runs) == len(files)
    for run in runs:
        assert 0 <= run["p"] <= 1
        assert run["c"]["lo"] <= run["c"]["value"] <= run["c"]["hi"]


@pytest.mark.parametrize("greedy", [("--temperature", 0), ("--top-p", 1e-7)])
def test_a_greedy_run_draws_one_path_of_a_prompt_and_says_so(tmp_path: Path, greedy: tuple[Any, ...]) -> None:
    asked = ("sample", "starter", "--engine", "fake", "--run", tmp_path / "run", "--n", 3, "--k", 4, *greedy)
    done, again = keff(*asked), keff(*asked)
    assert "gives the same path each time: keff draws 1 of 4" in done.stderr
    assert "3 paths drawn" in done.stdout + done.stderr
    assert "0 paths drawn" in again.stdout + again.stderr
    more = keff(*asked, "--keep-going")
    assert "same path" not in more.stderr
    assert "9 paths drawn, 3 kept" in more.stdout + more.stderr
