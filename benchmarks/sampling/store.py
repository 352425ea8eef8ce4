"""A large run, stage by stage as a user would: sampled, resumed, scored again, analysed, shown on a page.

    python -m benchmarks.sampling.store [--full]

The engine is the fake one: its texts are some twenty words and an answer. Times are processor seconds of the
whole process, start-up included. Without ``--full`` the run has a tenth of the questions.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks.cli.scale import Cost, keff

PATHS = 8


def write_questions(path: Path, n: int) -> None:
    """Write questions with a number as the answer."""
    with path.open("w", encoding="utf-8") as file:
        for place in range(n):
            boxes, more = place % 997, place * 7 % 883
            question = (
                f"Question {place}: a warehouse holds {boxes} boxes and receives {more} more before noon. "
                "How many boxes are there in the end?"
            )
            row = {"id": f"q{place}", "question": question, "answer": str(boxes + more)}
            file.write(json.dumps(row) + "\n")


def told(stage: str, used: Cost, target: str) -> None:
    """Print what a stage took."""
    print(f"{stage}: {used.seconds:.2f} s, {used.memory:.0f} MB, exit {used.code}", flush=True)
    print(f"claim: {stage} | {used.seconds:.1f} s, {used.memory:.0f} MB | {target}", flush=True)


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="100,000 questions, some minutes")
    n = 100_000 if parser.parse_args().full else 10_000
    size = f"{n:,} x {PATHS}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, run, page = folder / "questions.jsonl", folder / "run", folder / "page.html"
        write_questions(data, n)
        ordered = ("sample", str(data), "--engine", "fake", "--run", str(run), "--k", str(PATHS), "--yes")
        told(f"sample {size} (fake engine)", keff(*ordered), "bounded memory")
        told(f"resume a complete run of {size}", keff(*ordered), "under 3 s, 150 MB")
        told(f"score {size} again", keff("score", str(run)), "bounded memory")
        told(f"analyze the run of {size}", keff("analyze", "--json", str(run)), "bounded memory")
        told(f"report the run of {size}", keff("report", str(run), "-o", str(page)), "bounded memory")
        print(f"run folder {sum(file.stat().st_size for file in run.iterdir()) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
