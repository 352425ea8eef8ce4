"""Write the sample logs of examples/, drawn from the fake engine: ``python scripts/write_examples.py``.

A model of known accuracy and correlation answers 100 questions, so that every command of README.md has a file
to read.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from keff.reading.open import open_record

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
QUESTIONS = 100


def write_questions(file: Path) -> None:
    """Write a question, with its gold answer, on each line."""
    rows = [
        {"id": f"q{i}", "question": f"What is {i} times 7?", "answer": str(7 * i)}
        for i in range(1, QUESTIONS + 1)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def drawn(questions: Path, folder: Path, k: int, **law: float) -> list[dict[str, object]]:
    """Draw ``k`` paths of each question from a model of this law, and return a row for each question."""
    given = [option for name, value in law.items() for option in ("--engine-option", f"{name}={value}")]
    command = [sys.executable, "-m", "keff", "sample", questions, "--engine", "fake", *given]
    subprocess.run([*command, "--run", folder, "--k", str(k)], check=True, capture_output=True)
    ballot = open_record(folder).ballot
    return [
        {
            "id": name,
            "gold_answer": question.gold,
            "all_answers": list(question.answers),
            "all_tokens": [int(value) for value in question.tokens or ()],
        }
        for name, question in zip(ballot.names, ballot.questions, strict=True)
    ]


def main() -> None:
    """Write the questions, a table with a row for each path, and the logs of a small and a large model."""
    write_questions(EXAMPLES / "questions.jsonl")
    with tempfile.TemporaryDirectory() as name:
        runs = Path(name)
        questions = EXAMPLES / "questions.jsonl"
        rows = drawn(questions, runs / "answers", 16, p=0.75, c=0.45, tokens=180, seed=3)
        with (EXAMPLES / "answers.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["id", "answer", "gold_answer", "tokens"])
            for row in rows:
                for answer, tokens in zip(row["all_answers"], row["all_tokens"], strict=True):  # type: ignore[call-overload]
                    table.writerow([row["id"], answer, row["gold_answer"], tokens])
        for model, p, tokens in (("small", 0.6, 90), ("large", 0.8, 400)):
            rows = drawn(questions, runs / model, 8, p=p, c=0.4, tokens=tokens, seed=len(model))
            text = "".join(json.dumps(row | {"model": model}) + "\n" for row in rows)
            (EXAMPLES / f"{model}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
