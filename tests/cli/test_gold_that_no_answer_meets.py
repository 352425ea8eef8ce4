"""Gold answers that no answer can meet are said before any figure, with a way that works."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import command_line
import keff
from keff.reading.open import Opening

# A gold answer as it is written, and an answer that means it, from a number.
Written = Callable[[int], str]

UNMET: dict[str, tuple[Written, Written]] = {
    "index of an option": (lambda n: str(n % 4), lambda n: "ABCD"[n % 4]),
    "text of an option": (lambda n: f"the {n}th option in full", lambda n: "ABCD"[n % 4]),
    "rationale": (lambda n: f"We add {n} and see it. " * 9, lambda n: str(n)),
    "list": (lambda n: json.dumps([f"name {n}"]), lambda n: str(n)),
}
WRITTEN_OTHERWISE: dict[str, tuple[Written, Written]] = {
    "separators": (lambda n: str(1000 + n), lambda n: f"1,{n:03d}"),
    "currency": (lambda n: str(n + 5), lambda n: f"${n + 5}.00"),
    "truth": (lambda n: str(n % 2 == 0), lambda n: "no" if n % 2 else "yes"),
    "brackets": (lambda n: "ABCD"[n % 4], lambda n: f"({'abcd'[n % 4]})"),
}
SOLUTIONS: dict[str, Written] = {
    "boxed": lambda n: rf"We have 3 + {n - 3} apples. So \boxed{{{n}}}.",
    "hashes": lambda n: f"First 4 apples.\n4 + {n - 4} = {n}\n#### {n}",
    "sentence": lambda n: f"Adding both gives more. The answer is {n}.",
}
COMMANDS = ["analyze", "noise", "audit", "report", "replay", "combine", "compare", "mix"]


def record(path: Path, gold: Written, answer: Written, *, questions: int = 16, slots: int = 2) -> Path:
    """Write a record in which three of four paths are right."""
    rng = np.random.default_rng(3)
    rows: list[dict[str, object]] = []
    for number in range(questions):
        meant = 10 + number
        right = rng.random(8) < 0.75
        said = [answer(meant if good else meant + 1) for good in right.tolist()]
        rows.append(
            {
                "id": f"q{number}",
                "all_answers": said,
                "gold_answer": gold(meant),
                "slots": [place % slots for place in range(8)],
                "all_tokens": [20] * 8,
            }
        )
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def run(command: str, folder: Path, file: Path, *options: str) -> tuple[int, str]:
    """Run a command of the program; returns its exit code and all that it says."""
    paths = [str(file), str(file)] if command == "compare" else [str(file)]
    if command == "mix":
        paths.append(str(file.with_name(f"other_{file.name}")))
        Path(paths[1]).write_bytes(file.read_bytes())
    own = {"report": ("-o", str(folder / "page.html")), "replay": ("--random-slots",)}
    done = command_line.keff(command, *paths, *options, *own.get(command, ()))
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize(("form", "commands"), [*((form, ["noise"]) for form in UNMET), ("list", COMMANDS)])
def test_gold_answers_of_another_form_are_refused(tmp_path: Path, form: str, commands: list[str]) -> None:
    file = record(tmp_path / "a.jsonl", *UNMET[form])
    for command in commands:
        code, said = run(command, tmp_path, file)
        assert code == 2, (command, said)
        assert "gold answers" in said, (command, said)


@pytest.mark.parametrize(
    ("form", "commands"), [*((form, ["audit"]) for form in WRITTEN_OTHERWISE), ("separators", COMMANDS)]
)
def test_the_answer_space_that_is_printed_makes_them_meet(
    tmp_path: Path, form: str, commands: list[str]
) -> None:
    file = record(tmp_path / "a.jsonl", *WRITTEN_OTHERWISE[form])
    for command in commands:
        code, said = run(command, tmp_path, file)
        assert code == 2, (command, said)
        remedy = re.search(r"--answer-space \w+ --rescore", said)
        assert remedy, said
        code, said = run(command, tmp_path, file, *remedy[0].split())
        assert code in (0, 1), (command, said)
        assert "gold answers is ever given" not in said


@pytest.mark.parametrize("form", SOLUTIONS)
@pytest.mark.parametrize("space", ["numeric", "math"])
def test_a_whole_solution_as_gold_answer_is_read_by_its_end(tmp_path: Path, form: str, space: str) -> None:
    if space == "math":
        pytest.importorskip("math_verify")
    file = record(tmp_path / "a.jsonl", SOLUTIONS[form], str)
    plain = record(tmp_path / "b.jsonl", str, str)
    found, right = (
        keff.open_record(each, Opening(answer_space=space)).ballot.votes.correct for each in (file, plain)
    )
    assert found is not None
    assert right is not None
    assert 0 < right.mean() < 1
    assert np.array_equal(found, right)


def test_of_a_few_questions_it_is_a_warning(tmp_path: Path) -> None:
    file = record(tmp_path / "a.jsonl", *UNMET["text of an option"], questions=5)
    code, said = run("noise", tmp_path, file)
    assert code == 0
    assert "none of 5 gold answers is ever given" in said


def test_wrong_answers_of_the_right_form_are_a_result(tmp_path: Path) -> None:
    file = record(tmp_path / "a.jsonl", str, lambda n: str(n + 1000))
    code, said = run("noise", tmp_path, file)
    assert code == 0
    assert "check that they belong to these questions" in said
