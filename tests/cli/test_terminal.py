"""What people see at a terminal of 80 columns: nothing is cut, and nothing unknown is shown as known."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

import how_many
from command_line import keff
from keff.cli import COMMANDS, _console
from keff.cli._app import build
from keff.records import FOLDED, terminal_width, text_table

pytestmark = pytest.mark.slow
CODES = re.compile(r"\x1b\[[0-9;]*m")


def at_a_terminal(*arguments: object, columns: int = 80) -> list[str]:
    """Run a command on a pseudo-terminal and return the lines that it shows."""
    master, slave = pty.openpty()
    environment = os.environ | {"COLUMNS": str(columns), "TERM": "xterm", "KEFF_DEBUG": "1"}
    command = [sys.executable, "-m", "keff", *map(str, arguments)]
    with subprocess.Popen(command, stdout=slave, stderr=subprocess.DEVNULL, env=environment) as process:
        os.close(slave)
        shown = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
    os.close(master)
    assert process.returncode == 0
    return [CODES.sub("", line).rstrip() for line in shown.decode().splitlines()]


def write_log(file: Path, n: int, k: int, *, labelled: bool = True) -> Path:
    rng = np.random.default_rng(1)
    with file.open("w") as out:
        for index in range(n):
            answers = [str(min(a, 3)) for a in rng.geometric(0.3 + 0.6 * rng.random(), k) - 1]
            row = {"id": str(index), "all_answers": answers} | ({"gold_answer": "0"} if labelled else {})
            out.write(json.dumps(row) + "\n")
    return file


def test_a_replay_shows_every_policy_whole(tmp_path: Path) -> None:
    lines = at_a_terminal("replay", write_log(tmp_path / "log.jsonl", 40, 40))
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    for policy in ("adaptive_consistency:0.95", "pilot_budget:0.98", "fixed:32"):
        assert text.count(policy) >= 3
    assert "…" not in text
    for header in ("accuracy", "kept", "rounds", "points at equal cost"):
        assert header in text


def test_a_summary_wraps_at_words_and_its_curve_fits(tmp_path: Path) -> None:
    lines = at_a_terminal("analyze", write_log(tmp_path / "log.jsonl", 40, 160))
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= 80
    (curve,) = [line for line in lines if "Plurality from 1 to 160 paths" in line]
    assert 8 <= sum(line in "▁▂▃▄▅▆▇█" for line in curve) <= 32


def test_a_console_with_a_code_page_shows_what_it_can(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    rows = [{"id": f"问{i}", "gold_answer": "4", "all_answers": ["4", "4", "5", "四"]} for i in range(12)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, "-m", "keff", "analyze", str(file)]
    for options, encoding in (([], "cp1252"), (["--json"], "cp437")):
        environment = os.environ | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
        done = subprocess.run([*command, *options], env=environment, capture_output=True, check=True)
        shown = done.stdout.decode(encoding)
        assert json.loads(shown)["n"] == 12 if options else "Plurality from 1 to 4 paths" in shown


def test_without_labels_the_table_shows_what_is_known(tmp_path: Path) -> None:
    file = write_log(tmp_path / "log.jsonl", 30, 8, labelled=False)
    found = json.loads(keff("analyze", file, "--json").stdout)
    shown = keff("analyze", file).stdout
    rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line.endswith("%")}
    assert set(rows) == {"1", "2", "4", "8"}
    for k, (share, same) in rows.items():
        assert share == f"{found['plurality_share'][k]:.1%}"
        assert same == f"{1 - found['flip'][k]:.1%}"
    assert "majority" not in shown
    assert " answers on average instead of 8" in shown


def test_a_negative_c_is_not_turned_into_evidence(tmp_path: Path) -> None:
    file = tmp_path / "three.jsonl"
    votes = ("4454", "9889", "7772")
    golds = "487"
    rows = [
        {"id": str(i), "gold_answer": gold, "all_answers": list(vote)}
        for i, (vote, gold) in enumerate(zip(votes, golds, strict=True))
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = json.loads(keff("analyze", file, "--json").stdout)
    assert found["c"]["lo"] <= found["c"]["value"] < 0
    shown = keff("analyze", file).stdout
    assert "cannot say yet how much more paths are worth" in shown
    assert "independent ones" not in shown
    assert "inf" not in shown
    limits = [float(end) for end in re.findall(r"\[([-+\d.]+), ", shown)]
    assert min(limits) >= -100


@pytest.mark.parametrize("command", ["sample", "pilot", "analyze", "serve"])
def test_help_shows_the_main_options_before_their_groups(command: str) -> None:
    shown = keff(command, "--help").stdout
    assert 0 < shown.index("\nOptions:\n") < shown.index("\nHow the record is read:\n")


def test_help_of_serve_needs_no_extra() -> None:
    code = (
        "import sys; sys.modules['starlette'] = None; "
        "sys.modules['uvicorn'] = None; sys.argv = ['keff', *sys.argv[1:]]; "
        "from keff.cli import main; main()"
    )
    helped = subprocess.run(
        [sys.executable, "-c", code, "serve", "--help"], capture_output=True, text=True, check=False
    )
    assert helped.returncode == 0, helped.stderr
    assert "--upstream" in helped.stdout
    run = subprocess.run(
        [sys.executable, "-c", code, "serve", "--upstream", "http://127.0.0.1:9/v1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert re.search(r"pip install .*\[serve\]'", run.stderr)


def test_a_reader_that_has_seen_enough_is_no_failure(tmp_path: Path) -> None:
    """`keff ... | head`: a real pipe whose reader goes away before the first line."""
    log = tmp_path / "log.jsonl"
    rows = ({"id": f"q{i}", "gold_answer": "1", "all_answers": ["1", "1", "2"]} for i in range(12))
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for arguments in (["noise", str(log)], ["noise", str(log), "--json"], ["list", "policies"], ["--help"]):
        command = [sys.executable, "-m", "keff", *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stderr is not None
            process.stdout.close()
            said = process.stderr.read()
        assert (process.returncode, b"Broken" in said) == (0, False)


def test_policies_to_replay_come_after_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    rows = ({"id": f"q{i}", "gold_answer": "1", "all_answers": ["1", "1", "2", "1"]} for i in range(12))
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = json.loads(keff("replay", log, "lead_k:2,cap=4", "fixed:2", "--json").stdout)
    assert [row["policy"] for row in told["policies"]][:2] == ["lead_k:2,cap=4", "fixed:2"]


CELLS = st.text(st.characters(categories=("L", "N"), include_characters="/,:"), min_size=1, max_size=40)


@settings(max_examples=how_many.examples(100), deadline=None)
@given(
    names=st.lists(CELLS, min_size=1, max_size=4),
    numbers=st.lists(st.lists(st.integers(0, 10**12), min_size=4, max_size=4), min_size=4, max_size=4),
    width=st.integers(40, 120),
)
def test_a_table_cuts_nothing_and_is_no_wider_than_asked(
    names: list[str], numbers: list[list[int]], width: int
) -> None:
    body = [(name, *(f"{cell:,}" for cell in row)) for name, row in zip(names, numbers, strict=False)]
    shown = text_table([("policy", "a", "b", "c", "d"), *body], width=width)
    assert max(map(len, shown.splitlines())) <= max(width, FOLDED)
    whole = "".join(shown.split())
    for name, *cells in body:
        assert all(cell in shown for cell in cells)
        assert name in whole


def test_a_table_that_fits_is_one_and_what_does_not_follows() -> None:
    head, row = ("policy", "accuracy", "tokens"), ("lead_k:3", "71.9%", "6")
    assert text_table([head, row]) == "policy    accuracy  tokens\nlead_k:3     71.9%       6"
    assert text_table([head, row], width=20) == (
        "policy    accuracy\nlead_k:3     71.9%\n\npolicy    tokens\nlead_k:3       6"
    )
    long = ("cascade:small(fixed:1)/large(lead_k:3,cap=8)", "71.9%", "6")
    assert text_table([head, long, row], width=36) == (
        "policy              accuracy  tokens\ncascade:small(fixed:1)/\nlarge(lead_k:3,cap=8)\n"
        "                       71.9%       6\nlead_k:3               71.9%       6"
    )


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("keff ana", {"analyze"}), ("keff analyze --bud", {"--budget", "--budget-dollars"})],
)
def test_the_shell_completes_commands_and_their_options(typed: str, offered: set[str]) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    for how, wanted in (("complete_bash", offered), ("source_bash", {"complete"})):
        asked = os.environ | words | {"_KEFF_COMPLETE": how}
        done = subprocess.run(
            [Path(sys.executable).with_name("keff")], env=asked, capture_output=True, text=True
        )
        assert wanted <= set(done.stdout.split()), done.stderr


def test_a_pipe_has_80_columns_unless_columns_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, width in (("", 80), ("60", 60), ("200", 200)):
        monkeypatch.setenv("COLUMNS", columns)
        assert terminal_width() == width
    monkeypatch.delenv("COLUMNS")
    assert terminal_width() == 80


def test_what_python_prints_is_what_the_terminal_shows(tmp_path: Path) -> None:
    import keff as library

    log = write_log(tmp_path / "a.jsonl", 30, 8)
    other = write_log(tmp_path / "b.jsonl", 30, 4)
    policies = ["lead_k:2,cap=8", "fixed:4"]
    for found, command in (
        (library.replay(log, policies), ("replay", log, *policies)),
        (library.mix(log, other, names=["a", "b"]), ("mix", log, other)),
        (library.noise(log), ("noise", log)),
        (library.audit(log, other), ("audit", log, other)),
        (library.compare(log, other), ("compare", log, other)),
        (library.combine(log), ("combine", log)),
        (library.predict(0.6, 0.3, 8), ("predict", "--p", 0.6, "--c", 0.3, "--k", 8)),
    ):
        shown = keff(*command, COLUMNS="80").stdout
        # A terminal folds sentences, which print does not.
        assert " ".join(shown.split()) in " ".join(str(found).split())
        assert found.line().split(". On ")[0] in str(found)
        assert "<table>" in found._repr_html_() and len(repr(found)) < 300


def test_an_analysis_begins_without_what_it_does_not_need(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    rows = ({"id": i, "gold_answer": "1", "all_answers": ["1", str(i % 3)]} for i in range(12))
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code = (
        "import atexit, sys; from keff.cli import main; "
        f"sys.argv = ['keff', 'analyze', '--epsilon', '0.02', {str(log)!r}]; "
        "loaded = lambda: print(*{'rich', 'asyncio'} & sys.modules.keys()); "
        "atexit.register(loaded); main()"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "questions" in shown
    assert shown.splitlines()[-1] == ""


def test_a_terminal_obeys_nothing_that_a_record_holds(capsys: pytest.CaptureFixture[str]) -> None:
    _console.say("a\x1b[2Jb\x07c\x9b31m")
    assert capsys.readouterr().out == "a[2Jbc31m\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_breaks_no_word_at_80_columns(command: str) -> None:
    group: Any = typer.main.get_command(build([command]))
    shown = keff(command, "--help", COLUMNS="80").stdout.split()
    parameters = [one for one in group.commands[command].params if not one.hidden]
    said = " ".join(getattr(one, "help", None) or "" for one in parameters)
    assert set(said.split()) <= set(shown)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_has_an_example_that_the_command_takes(command: str) -> None:
    group: Any = typer.main.get_command(build([command]))
    shown = " ".join(keff(command, "--help", COLUMNS="80").stdout.split())
    example = re.search(rf"Example: keff {command} (.*?) (?:Arguments|Options):", shown)
    assert example is not None
    group.commands[command].make_context(command, example[1].split())
    assert " / --" not in shown, "a flag that only turns something off has one name"
