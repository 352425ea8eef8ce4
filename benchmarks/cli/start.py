"""What a user waits for: an analysis of 500 x 80 recorded answers, and the demo."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

KEFF = [sys.executable, "-m", "keff"]


def seconds(command: list[str], times: int = 5) -> float:
    """Return the median wall time of a command."""
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found.append(time.perf_counter() - begun)
    return statistics.median(found)


def record(file: Path, n: int, k: int) -> Path:
    """Write a record of n questions x k answers with a long tail."""
    rng = np.random.default_rng(0)
    with file.open("w", encoding="utf-8") as out:
        for index, share in enumerate(rng.beta(1.5, 0.7, n)):
            answers = np.where(rng.random(k) < share, 0, rng.geometric(0.4, k))
            row = {"id": index, "gold_answer": "0", "all_answers": [str(index * one) for one in answers]}
            out.write(json.dumps(row) + "\n")
    return file


def main() -> None:
    """Print the waiting times; the demo last, as it draws 384 paths of a real model."""
    with tempfile.TemporaryDirectory() as folder:
        large, tiny = record(Path(folder) / "a.jsonl", 500, 80), record(Path(folder) / "b.jsonl", 10, 1)
        whole, start = (seconds([*KEFF, "analyze", str(file)]) for file in (large, tiny))
        print(f"keff analyze: 500 x 80 answers {whole:.2f} s, 10 x 1 answers {start:.2f} s")
        print(f"claim: keff analyze, 500 x 80 answers, after start-up | {whole - start:.2f} s | under 1 s")
        begun = time.perf_counter()
        command = [*KEFF, "demo", "--run", f"{folder}/demo-run"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        minutes = (time.perf_counter() - begun) / 60
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"claim: keff demo, real model | {minutes:.1f} minutes | about 3 minutes")
    print(f"claim: memory of keff demo | {peak:.0f} MB | under 1000 MB")


if __name__ == "__main__":
    main()
