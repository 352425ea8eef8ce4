"""Files that people write by hand, a clock that jumps, and a reading function that hangs, forks or lies."""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from benchmarks.hostile._tally import Tally
from keff import cli

STUDY = """name = "mine"
runs = "runs"
n = 4
seeds = [42, 123]
temperature = 0.7

[[models]]
name = "small"
label = "Small"
engine = "fake"
model = "s"

[[tasks]]
name = "starter"

[[arms]]
name = "sc"
k = 2
"""
PRICES = '["gpt"]\nprompt = 0.5\noutput = 1.5\n\n["small model"]\npath = 0.001\n'
TEMPLATE = 'templates = ["Add: {question}", "Please add. {question}"]\n'
BRANCH = 'name = "large"\nengine = "fake"\nmodel = "l"\nk = 2\n\n[engine_option]\np = 0.8\n'
SECONDS = 60.0
"""Longest time of one command on a busy machine."""

LOG = "".join(
    f'{{"id": "q{i}", "gold_answer": "{i}", "all_answers": ["{i}", "{i + 1}", "{i}", "{i}"]}}\n'
    for i in range(6)
)


def _swap(text: str, rng: random.Random) -> str:
    place = rng.randrange(len(text))
    return text[:place] + text[place : place + 2][::-1] + text[place + 2 :]


def _drop(text: str, rng: random.Random) -> str:
    place = rng.randrange(len(text))
    return text[:place] + text[place + 1 :]


def _add(text: str, rng: random.Random) -> str:
    place = rng.randrange(len(text) + 1)
    return text[:place] + rng.choice("[]{}=\"'#,.-_ \n\t0aé\x00\ud800") + text[place:]


def _line(text: str, rng: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    line = lines[rng.randrange(len(lines))]
    return text.replace(line, rng.choice(("", line * 2, line.upper(), line.replace("=", ":"))), 1)


def _value(text: str, rng: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    places = [place for place, line in enumerate(lines) if "=" in line]
    if not places:
        return text
    place = rng.choice(places)
    other = rng.choice(("-1", "1e999", "nan", '""', "[]", "{}", "true", "99999999999999999999", '"../../x"'))
    lines[place] = f"{lines[place].split('=')[0]}= {other}\n"
    return "".join(lines)


TYPOS: tuple[Callable[[str, random.Random], str], ...] = (_swap, _drop, _add, _line, _value)


def in_process(arguments: list[str]) -> tuple[int, str]:
    """Run one command in this process; returns its exit code and what it said on stderr."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["keff", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            cli.main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
            return code, err.getvalue()
    return 0, err.getvalue()


def toml_typos(scratch: Path, inputs: int, seed: int) -> Tally:
    """Read price tables, prompts, branches and studies with typing errors: accepted, or one line, code 2."""
    tally, folder = Tally("typing errors in TOML"), scratch / "toml"
    folder.mkdir(parents=True)
    log = folder / "log.jsonl"
    log.write_text(LOG)
    other = folder / "other.toml"
    other.write_text('engine = "fake"\n')
    commands = {
        "prices": (PRICES, lambda file: ["analyze", str(log), "--prices", str(file), "--volume", "10"]),
        "study": (STUDY, lambda file: ["study", "status", str(file), "--runs", str(folder / "runs")]),
        "branch": (
            BRANCH,
            lambda file: _pilot(folder, number, "--branch", str(file), "--branch", str(other)),
        ),
        "prompts": (TEMPLATE, lambda file: _pilot(folder, number, "--template", str(file))),
    }
    for number in range(inputs):
        rng = random.Random(f"{seed}|toml|{number}")
        name = list(commands)[number % len(commands)]
        text, command = commands[name]
        for _ in range(rng.randint(1, 3)):
            text = rng.choice(TYPOS)(text, rng) or " "
        file = folder / f"{name}.toml"
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
        shutil.rmtree(folder / f"run{number - 1}", ignore_errors=True)
        begun = time.monotonic()
        code, said = in_process(command(file))
        where = f"seed {seed}, {name} {number}"
        tally.inputs += 1
        tally.outcomes["refused" if code else "accepted"] += 1
        tally.check_text(where, said)
        if code not in (0, 2) or "internal error" in said:
            tally.fail(f"{where}: code {code}: {said.strip()[-160:]}")
        if time.monotonic() - begun > SECONDS:
            tally.fail(f"{where}: {time.monotonic() - begun:.0f} s")
    return tally


def _pilot(folder: Path, number: int, *options: str) -> list[str]:
    given = ["starter", "--engine", "fake", "--n", "4", "--k", "2", "--yes"]
    return ["pilot", *given, "--run", str(folder / f"run{number}"), *options]


CLOCK = """
import random, sys, time
rng, real = random.Random({seed}), time.time
jump = [0.0]
def jumping():
    if rng.random() < 0.3:
        jump[0] = rng.choice((-1e9, -86400.0, -3600.0, -1.0, 0.0, 1.0, 3600.0, 86400.0, 1e9))
    return real() + jump[0]
time.time = jumping
from keff import cli
sys.argv = ["keff", "sample", "starter", "--engine", "fake", "--n", "3", "--k", "4", "--run", {run!r}]
cli.main()
"""


def jumping_clock(scratch: Path, inputs: int, seed: int) -> Tally:
    """Sample under a wall clock that jumps by seconds, days and decades: every path is drawn once."""
    from benchmarks.hostile._sampling import rows

    tally, folder = Tally("a clock that jumps"), scratch / "clock"
    folder.mkdir(parents=True)
    for number in range(inputs):
        run = folder / f"run {number}"
        program = CLOCK.format(seed=f"'{seed}|{number}'", run=str(run))
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS, check=False
        )
        tally.inputs += 1
        held = len(rows(run))
        tally.outcomes["whole" if held == 12 else "not whole"] += 1
        tally.check_text(f"seed {seed}, clock {number}", done.stderr)
        if done.returncode or held != 12:
            tally.fail(f"seed {seed}, clock {number}: code {done.returncode}, {held} of 12 paths")
    return tally


KEYS = {
    "hangs": "import time\ndef key(answer):\n    time.sleep(1000)\n",
    "spins": "def key(answer):\n    while True: pass\n",
    "forks": "import os\ndef key(answer):\n    os.fork()\n    return answer\n",
    "leaves a child": (
        "import os, time\ndef key(answer):\n    if os.fork() == 0:\n        time.sleep(5)\n"
        "        os._exit(0)\n    return answer\n"
    ),
    "ends": "import os\ndef key(answer):\n    os._exit(3)\n",
    "leaves": "import sys\ndef key(answer):\n    sys.exit()\n",
    "writes to its reply": "import os\ndef key(answer):\n    os.write(3, b'[[[\\n')\n    return answer\n",
    "prints": 'def key(answer):\n    print(\'{"key": "forged"}\', flush=True)\n    return answer\n',
    "raises": "def key(answer):\n    raise RuntimeError('a\\nb')\n",
    "returns a number": "def key(answer):\n    return 7\n",
    "returns much": "def key(answer):\n    return 'x' * 10**7\n",
    "returns a surrogate": "def key(answer):\n    return '\\ud800'\n",
    "closes all": "import os\ndef key(answer):\n    os.closerange(0, 64)\n    return answer\n",
    "kills itself": "import os\ndef key(answer):\n    os.kill(os.getpid(), 9)\n",
    "does not import": "import nothing_of_that_name\ndef key(answer):\n    return answer\n",
    "has no such function": "def other(answer):\n    return answer\n",
    "is no Python": "def key(answer:\n",
}
"""What a person's own function does by mistake: it runs with their rights, and must not hang the command."""


def hostile_keys(scratch: Path, inputs: int, seed: int) -> Tally:
    """Read a log by functions that hang, fork, end or lie: a result or one line, in time."""
    del seed
    tally, folder = Tally("answer keys"), scratch / "keys"
    folder.mkdir(parents=True)
    log = folder / "log.jsonl"
    log.write_text(LOG)
    for number in range(min(inputs, len(KEYS))):
        name = list(KEYS)[number]
        file = folder / f"key{number}.py"
        file.write_text(KEYS[name])
        begun = time.monotonic()
        arguments = ["-m", "keff", "read", str(log), "--answer-key", f"{file}:key", "--json"]
        tally.inputs += 1
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            _, said = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            tally.fail(f"the answer key that {name}: no end after {SECONDS:.0f} s")
            continue
        tally.outcomes["refused" if process.returncode else "read"] += 1
        tally.check_text(f"the answer key that {name}", said)
        if process.returncode not in (0, 1, 2) or "internal error" in said:
            tally.fail(f"the answer key that {name}: code {process.returncode}: {said.strip()[-200:]}")
        if time.monotonic() - begun > SECONDS:
            tally.fail(f"the answer key that {name}: {time.monotonic() - begun:.0f} s")
    return tally
