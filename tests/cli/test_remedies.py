"""What a refusal recommends is done, word for word, until the command works: no remedy leads nowhere."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_logs import langsmith, paths
from command_line import keff
from tests.golden.small_logs import BAD

RIGHT = [[(i * j + i + j // 2) % 3 > 0 for j in range(3)] for i in range(12)]
CELLS = [(i, j, right) for i, row in enumerate(RIGHT) for j, right in enumerate(row)]


def table(head: str, row: Callable[[int, int, bool], str]) -> bytes:
    return "".join([f"{head}\n", *(f"{row(i, j, right)}\n" for i, j, right in CELLS)]).encode()


def rows(row: Callable[[int, int, bool], object]) -> bytes:
    return "".join(f"{json.dumps(row(i, j, right))}\n" for i, j, right in CELLS).encode()


def value(i: int, j: int, right: bool) -> int:
    return i + 5 if right else i + 40 + j


PLAIN = table("id,gold,answer", lambda i, j, right: f"q{i},{i + 5},{value(i, j, right)}")

# Files as strangers have them, each refused at first.
CSV: dict[str, bytes] = {
    "other names": table("nr,guess,truth", lambda i, j, right: f"{i},{value(i, j, right)},{i + 5}"),
    "two answers": table("id,answer,prediction", lambda i, j, right: f"{i},{i + 5},{value(i, j, right)}"),
    "an answer beside completions": table(
        "id,answer,completion", lambda i, j, right: f"{i},{i + 5},so it is {value(i, j, right)}"
    ),
    "a label beside a text": table(
        "id,label,text", lambda i, j, right: f"{i},{i + 5},so it is {value(i, j, right)}"
    ),
    "paths that are missing": b"".join(
        line for n, line in enumerate(PLAIN.splitlines(keepends=True)) if n not in (3, 8, 9, 30, 31)
    ),
    "rows finer than a path": table(
        "id,gold,answer,rollout", lambda i, j, right: f"q{i},{i + 5},{value(i, j, right)},{j}"
    ),
    "gold as a solution": table(
        "id,gold,answer",
        lambda i, j, right: f"q{i},so we get \\boxed{{{i + 5}}},{value(i, j, right)}",
    ),
    "names of programmers": table(
        "idx,y_pred,y_true", lambda i, j, right: f"{i},{value(i, j, right)},{i + 5}"
    ),
    "a number of the question": table(
        "question_number,final,truth", lambda i, j, right: f"{i},{value(i, j, right)},{i + 5}"
    ),
    "steps": table("id,gold,answer,step", lambda i, j, right: f"q{i},{i + 5},{value(i, j, right)},{j}"),
    "runs one after the other": b"id,gold,answer,part\n"
    + b"".join(
        f"q{i},{i + 5},{value(i, j, right)},{j}\n".encode()
        for i, j, right in sorted(CELLS, key=lambda c: c[1])
    ),
    "verdicts in words": table(
        "id,verdict", lambda i, _, right: f"{i},{'correct' if right else 'incorrect'}"
    ),
    "percentages": table("id,gold,answer", lambda i, j, right: f"{i},{(i + 5) / 100},{value(i, j, right)}%"),
    "letters in brackets": table(
        "id,gold,answer", lambda i, _, right: f"{i},{'ABCD'[i % 4]},({'abcd'[(i + 1 - right) % 4]})"
    ),
    "truth and yes": table(
        "id,gold,answer",
        lambda i, _, right: f"{i},{i % 2 == 0},{'yes' if right == (i % 2 == 0) else 'no'}",
    ),
}
JSONL: dict[str, bytes] = {
    "whole completions": rows(
        lambda i, j, right: {"id": i, "gold": i + 5, "completion": f"It is {value(i, j, right)}"}
    ),
    "objects as answers": rows(
        lambda i, j, right: {"id": i, "gold": {"n": i + 5}, "answer": {"n": value(i, j, right)}}
    ),
    "several templates": rows(
        lambda i, j, right: {"id": i, "gold": i + 5, "answer": value(i, j, right), "slot": j}
    ),
    "messages": rows(
        lambda i, j, right: {
            "id": i,
            "gold": i + 5,
            "messages": [
                {"role": "user", "content": "?"},
                {"role": "assistant", "content": f"It is {value(i, j, right)}"},
            ],
        }
    ),
}
FILES: dict[str, tuple[str, bytes]] = {
    **{kind: ("a.csv", content) for kind, content in CSV.items()},
    **{kind: ("a.jsonl", content) for kind, content in JSONL.items()},
    "packed": ("a.csv.gz", gzip.compress(PLAIN)),
}

# Ways of saying what to write, and how it is written.
REMEDIES: tuple[tuple[str, str], ...] = (
    (r"--answer-space (\w[\w:=,]*) --rescore", "--answer-space {} --rescore"),
    (r"--answer-space, such as (\w+)", "--answer-space {}"),
    (r"--answer-space (\w[\w:=,]*)", "--answer-space {}"),
    (r"--columns (\w+=[^\s:;)]+?)(?:, or|, for|[\s:;)]|$)", "--columns {}"),
    (r"--format (\w+):scorer=NAME, of ([\w.]+)", "--format {}:scorer={}"),
    (r"--format (\w+:\w+=[\d.]+)", "--format {}"),
    (r"--trim (\d+)", "--trim {}"),
    (r"\((--random-slots)\)", "{}"),
    (r"\(--format (NAME) says why", "--format jsonl"),
)


def recommended(said: str, done: str) -> str | None:
    """Return the first remedy in a refusal that was not done yet; a column left open is the last there is."""
    column = re.search(r"\(it has: .*?([^\s,]+)\)", said)
    for pattern, written in REMEDIES:
        for found in re.finditer(pattern, said):
            words = written.format(*found.groups()).replace("COLUMN", column[1] if column else "COLUMN")
            if words not in done and not re.search(r"COLUMN|NAME|\.\.\.", words):
                return words
    return None


def followed(command: str, path: Path) -> tuple[int, str, str]:
    """Run a command, and whatever its refusals say, until it is not refused or nothing more is said.

    Returns the exit code, the options and what was said last. No remedy leads to the same refusal.
    """
    options, said = "", ""
    for _ in range(5):
        done = keff(command, path.name, *shlex.split(options), cwd=path.parent)
        assert done.returncode != 2 or done.stderr != said, f"{options}: {said}"
        said = done.stderr
        if done.returncode != 2:
            break
        if unpacking := re.search(r"is compressed: (\w+) -k \S+,", said):
            subprocess.run([unpacking[1], "-kf", path.name], check=True, cwd=path.parent)
            path = path.with_suffix("")
        elif more := recommended(said, options):
            options = f"{options} {more}".strip()
        else:
            break
    return done.returncode, options, said


@pytest.mark.parametrize("kind", FILES)
def test_every_refusal_is_mended_by_what_it_says(kind: str, tmp_path: Path) -> None:
    """By ``keff read``, where there is something to read, and by one of the other commands, in turn."""
    name, content = FILES[kind]
    (tmp_path / name).write_bytes(content)
    other = ("analyze", "noise", "replay", "audit", "combine")[list(FILES).index(kind) % 5]
    for command in (other, *(["read"] if kind != "verdicts in words" else [])):
        code, options, said = followed(command, tmp_path / name)
        assert code == 0, f"{command} {options}: {said}"


@pytest.mark.parametrize("kind", BAD)
def test_no_remedy_for_a_bad_file_leads_to_the_same_refusal(kind: str, tmp_path: Path) -> None:
    name, content = BAD[kind]
    (tmp_path / name).write_bytes(content)
    for command in ("read", "analyze"):
        code, options, said = followed(command, tmp_path / name)
        assert code == 0 or not recommended(said, options), f"{command} {options}: {said}"


def test_scores_of_which_none_was_named_are_mended_by_what_is_said(tmp_path: Path) -> None:
    path = langsmith(tmp_path, [pair for pair in paths() if pair[0] != 2])
    lines = list(map(json.loads, path.read_text().splitlines()))
    for line in lines:
        line["feedback_stats"] |= {"polite": {"n": 1, "avg": 1.0}}
    path.write_text("".join(map("{}\n".format, map(json.dumps, lines))))
    code, options, said = followed("analyze", path)
    assert (code, options) == (0, "--format langsmith:scorer=exact"), said


def test_graded_scores_are_read_by_the_commands_that_are_named(tmp_path: Path) -> None:
    scores = table("id,score", lambda i, j, right: f"{i},{0.2 + 0.6 * right + 0.01 * j}")
    (tmp_path / "a.csv").write_bytes(scores)
    done = keff("analyze", "a.csv", cwd=tmp_path)
    assert done.returncode == 2
    commands = re.findall(r"keff (noise|compare)", done.stderr)
    assert commands == ["noise", "compare"]
    (tmp_path / "b.csv").write_bytes(scores.replace(b"0.2", b"0.3"))
    assert keff("noise", "a.csv", cwd=tmp_path).returncode == 0
    assert keff("compare", "a.csv", "b.csv", cwd=tmp_path).returncode == 0
