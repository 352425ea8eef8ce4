"""Say how many paths were worth paying for, from answers that are already recorded.

    python examples/analyze_a_log.py [answers.jsonl]

Without a file it writes one first: 60 questions, 16 answers each, of a made-up model.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

import keff


def made_up_log(folder: Path) -> Path:
    """Write a log in which some questions are easy, some hard, and wrong answers scatter."""
    rng = np.random.default_rng(1)
    file = folder / "answers.jsonl"
    with file.open("w") as out:
        for number in range(60):
            skill = rng.beta(1.2, 0.8)
            right = rng.random(16) < skill
            answers = [str(number) if one else str(number + rng.integers(1, 6)) for one in right]
            out.write(
                json.dumps({"id": f"q{number}", "gold_answer": str(number), "all_answers": answers}) + "\n"
            )
    return file


def main(file: Path) -> None:
    """Print the estimates that matter."""
    record = keff.open_record(file)
    found = keff.analyze(record, keff.Settings(k_max=32))
    print(f"{found.n} questions x {found.k} paths; one path is right {found.p:.1%} of the time")
    print(f"correctness correlation c = {found.c.text()}")
    print(f"{found.k} paths are worth {found.k_eff.text()} independent ones")
    for k in (1, 2, 4, 8, 16):
        if k in found.plurality:
            low, high = found.bands.plurality[k]
            print(f"  plurality of {k:2d}: {found.plurality[k]:.1%} [{low:.1%}, {high:.1%}]")
    print(f"verdict: {found.recommendation.verdict}; deploy {found.recommendation.policy}")
    print(f"because {found.recommendation.because}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(made_up_log(Path(folder)))
