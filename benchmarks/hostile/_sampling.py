"""Sampling from a server that fails, killed at random moments, onto a disk that is full."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.hostile._faults import Server, running, true_text
from benchmarks.hostile._tally import SECRET, Tally

PATHS = 8
SESSIONS = 60
"""Sessions after which a run that is still not complete has failed."""
SECONDS = 120.0
"""Longest time of one session."""
FORMS = (
    ("n_per_request=1",),
    ("n_per_request=3",),
    ("n_per_request=auto",),
    ("n_per_request=2", "stream=true"),
)
Row = tuple[str, int, int, str]
"""Question, path, seed and text."""


def rows(run: Path) -> set[Row]:
    """Return the paths that are kept."""
    file = run / "paths.sqlite"
    if not file.exists():
        return set()
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=10)) as database:
        try:
            return set(database.execute("select item, path, seed, text from paths where error is null"))
        except sqlite3.OperationalError:
            return set()


def command(folder: Path, url: str, n: int, form: Sequence[str]) -> list[str]:
    """Return the command line of one session."""
    engine = [f"base_url={url}", "model=stub", "max_retries=1", *form]
    options = [part for option in engine for part in ("--engine-option", option)]
    size = [
        "--n",
        str(n),
        "--k",
        str(PATHS),
        "--concurrency",
        "48",
        "--max-tokens",
        "64",
        "--yes",
        "--keep-going",
    ]
    task = [str(folder / "q.jsonl"), "--answer-space", "numeric", "--run", str(folder / "run")]
    return [sys.executable, "-m", "keff", "sample", *task, "--engine", "openai", *options, *size]


def _question(item: str) -> str:
    return f"What is {item[1:]} + 1?"


def questions(folder: Path, n: int) -> None:
    """Write n questions."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ({"id": f"q{i}", "question": _question(f"q{i}"), "answer": str(i % 10)} for i in range(n))
    (folder / "q.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def session(line: Sequence[str], kill_after: float | None, tally: Tally, where: str) -> int:
    """Run one session, kill it where told, and check what it printed; returns its exit code."""
    process = subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ | {"OPENAI_API_KEY": SECRET}
    )
    try:
        output, _ = process.communicate(timeout=SECONDS if kill_after is None else kill_after)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        if kill_after is None:
            tally.fail(f"{where}: a session of more than {SECONDS:.0f} s")
    tally.check_text(where, output.decode("utf-8", "replace"))
    if process.returncode not in (0, 1, -9):
        tally.fail(f"{where}: exit code {process.returncode}: {output[-200:]!r}")
    return process.returncode


def one_run(folder: Path, server: Server, n: int, rng: random.Random, tally: Tally) -> None:
    """Sample n questions in as many sessions as it takes, some of them killed, and check every path."""
    questions(folder, n)
    seen: set[Row] = set()
    for number in range(SESSIONS):
        where = f"seed {server.seed}, {folder.name}, session {number}"
        line = command(folder, server.url, n, ("timeout=0.6", *rng.choice(FORMS)))
        killed = rng.uniform(0.8, 3.0) if rng.random() < 0.4 else None
        code = session(line, killed, tally, where)
        tally.outcomes[{0: "complete sessions", -9: "kills"}.get(code, "sessions to go on with")] += 1
        now = rows(folder / "run")
        if not seen <= now:
            tally.fail(f"{where}: {len(seen - now)} committed paths are lost or changed")
        seen = now
        if code == 0:
            break
    else:
        tally.fail(f"seed {server.seed}, {folder.name}: not complete after {SESSIONS} sessions")
    check(folder, n, seen, tally, f"seed {server.seed}, {folder.name}")


def check(folder: Path, n: int, kept: set[Row], tally: Tally, where: str) -> None:
    """Check a complete run: each path once, with the text of its own seed; no key in any file."""
    owed = {(f"q{i}", path) for i in range(n) for path in range(PATHS)}
    if sorted((row[0], row[1]) for row in kept) != sorted(owed):
        tally.fail(
            f"{where}: {len(kept)} paths, {len({row[:2] for row in kept} ^ owed)} of them missing or doubled"
        )
    wrong = [row for row in kept if row[3] != true_text(_question(row[0]), row[2])]
    tally.outcomes["paths checked"] += len(kept)
    if wrong:
        tally.fail(f"{where}: {len(wrong)} paths misread, such as {wrong[0]}")
    for file in (folder / "run").iterdir():
        if file.is_file() and SECRET.encode() in file.read_bytes():
            tally.fail(f"{where}: the key is in {file.name}")


def faults_and_kills(scratch: Path, requests: int, seed: int) -> Tally:
    """Sample run after run until the server has had so many requests, 40% of them failed."""
    tally, rng = Tally("sampling"), random.Random(seed)
    with running(Server(0.4, seed)) as server:
        number = 0
        while sum(server.kinds.values()) < requests:
            left = requests - sum(server.kinds.values())
            one_run(scratch / f"run {number}", server, min(120, 10 + left // 8), rng, tally)
            number += 1
        tally.inputs = sum(server.kinds.values())
        tally.outcomes["kinds of faults met"] = len(server.kinds) - ("honest" in server.kinds)
    return tally


FULL = """
import subprocess, sys, time
from pathlib import Path
folder, line = Path(sys.argv[1]), sys.argv[2:]
filler = folder / "filler"
filler.write_bytes(bytes({filler}))
first = subprocess.run(line, capture_output=True, text=True, cwd=folder)
again = subprocess.run(line, capture_output=True, text=True, cwd=folder)
filler.unlink()
second = subprocess.run(line, capture_output=True, text=True, cwd=folder)
subprocess.run(["cp", "-r", str(folder / "run"), {out!r}], check=True)
runs = first, again, second
print(*(run.returncode for run in runs))
print("".join(run.stdout + run.stderr for run in runs))
"""


def full_disk(scratch: Path, times: int, seed: int) -> Tally:
    """Sample onto a file system that fills up at different places, twice; then make room, and go on."""
    tally = Tally("full disk")
    if shutil.which("bwrap") is None:
        tally.outcomes["skipped: bubblewrap is not installed"] = 1
        return tally
    rng, n = random.Random(seed), 30
    with running(Server(0.0, seed, ends=0.0)) as server:
        for number in range(times):
            place, out = scratch / f"disk {number}", scratch / f"out {number}"
            questions(place, n)
            questions(out, n)
            room, size = rng.randrange(0, 300_000), 8_000_000
            script = FULL.format(filler=size - room, out=str(out))
            # What the jail's small file system hides is written inside it first.
            inside = f'cp {str(out / "q.jsonl")!r} {str(place)!r} && exec {sys.executable} -c "$0" "$@"'
            jail = ["bwrap", "--dev-bind", "/", "/", "--size", str(size), "--tmpfs", str(place)]
            # The server is sound: on a busy machine it only takes longer.
            line = command(place, server.url, n, FORMS[0])
            done = subprocess.run(
                [*jail, "sh", "-c", inside, script, str(place), *line],
                capture_output=True,
                text=True,
                env=os.environ | {"OPENAI_API_KEY": SECRET},
                check=False,
            )
            where = f"seed {seed}, {room} bytes of room"
            tally.inputs += 1
            tally.check_text(where, done.stdout + done.stderr)
            codes = done.stdout.partition("\n")[0]
            tally.outcomes[f"exit codes {codes}"] += 1
            if codes not in ("2 2 0", "0 0 0"):
                tally.fail(f"{where}: exit codes {codes!r}: {(done.stdout + done.stderr)[-300:]!r}")
            else:
                check(out, n, rows(out / "run"), tally, where)
    return tally
