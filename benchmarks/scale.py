"""Large records: processor time against json.loads over the same file, and peak memory, each in a process.

    python -m benchmarks.scale

Writes synthetic records (short answers to questions of unequal difficulty, some of them abstentions), then
runs ``keff analyze --json`` and ``keff replay`` on them as a user would. Times are processor seconds of the
whole process, start-up included, and beside json.loads the median of three turns.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

READ = "import json, sys\nfor line in open(sys.argv[1], 'rb'): json.loads(line)"
POLICIES = (
    "fixed:8",
    "fixed:16",
    "fixed:32",
    "curtailed:cap=32",
    "adaptive_consistency:0.9",
    "adaptive_consistency:0.95",
    "adaptive_consistency:0.99",
    "lead_k:2",
    "lead_k:3",
    "esc:4",
    "budget:2",
    "budget:4",
)
TURNS = range(3)
"""So many times json.loads and keff read a record in turn."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor seconds and peak memory (MB) of a process, and how it ended."""

    seconds: float
    memory: float
    code: int


def cost(*command: str) -> Cost:
    """Run a command and return what it took."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            print(errors.read().decode("utf-8", "replace")[-500:])
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, process.returncode)


def answers(n: int, k: int, seed: int) -> tuple[list[str], list[list[str | None]]]:
    """Return gold answers [n] and answers [n][k], right as often as the question is easy, else one of six."""
    rng = np.random.default_rng(seed)
    gold, wrong = rng.integers(0, 1000, n), rng.integers(0, 1000, (n, 6))
    pick = rng.choice(6, (n, k), p=[0.4, 0.25, 0.15, 0.1, 0.05, 0.05])
    right = rng.random((n, k)) < rng.beta(1.2, 0.9, (n, 1))
    codes = np.where(right, gold[:, None], np.take_along_axis(wrong, pick, axis=1))
    codes[rng.random((n, k)) < 0.02] = -1
    drawn = [[None if code < 0 else str(code) for code in row] for row in codes.tolist()]
    return [str(each) for each in gold.tolist()], drawn


def write_jsonl(path: Path, n: int, k: int) -> None:
    """Write a record as JSONL, some thousand questions at a time."""
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, n, 10_000):
            gold, drawn = answers(min(10_000, n - start), k, start)
            for place, (own, row) in enumerate(zip(gold, drawn, strict=True), start):
                file.write(json.dumps({"id": f"q{place}", "gold_answer": own, "all_answers": row}) + "\n")


def write_parquet(path: Path, n: int, k: int) -> None:
    """Write a record as Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        {"id": pa.string(), "gold_answer": pa.string(), "all_answers": pa.list_(pa.string())}.items()
    )
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n, 10_000):
            gold, drawn = answers(min(10_000, n - start), k, start)
            ids = [f"q{place}" for place in range(start, start + len(gold))]
            writer.write_table(pa.table({"id": ids, "gold_answer": gold, "all_answers": drawn}, schema))


def keff(*arguments: str) -> Cost:
    """Run keff in a process."""
    return cost(sys.executable, "-m", "keff", *arguments)


def analysed(folder: Path, n: int, k: int, times: int, memory: int) -> None:
    """Analyse a record of JSONL beside json.loads alone."""
    path = folder / f"{n}x{k}.jsonl"
    write_jsonl(path, n, k)
    pairs = [
        (cost(sys.executable, "-c", READ, str(path)), keff("analyze", "--json", str(path))) for _ in TURNS
    ]
    ordered = (sorted(each, key=lambda used: used.seconds) for each in zip(*pairs, strict=True))
    alone, whole = (each[len(each) // 2] for each in ordered)
    name = f"analyze {n:,} x {k}, JSONL of {path.stat().st_size / 1e6:.1f} MB"
    print(f"{name}: {whole.seconds:.2f} s, json.loads {alone.seconds:.2f} s, exit {whole.code}")
    print(
        f"claim: {name} | {whole.seconds / alone.seconds:.1f} times json.loads, {whole.memory:.0f} MB "
        f"| at most {times} times, {memory} MB"
    )


def timed(name: str, used: Cost, seconds: int, memory: int) -> None:
    """Say what a command took."""
    print(f"{name}: {used.seconds:.2f} s, {used.memory:.0f} MB, exit {used.code}")
    print(f"claim: {name} | {used.seconds:.1f} s, {used.memory:.0f} MB | under {seconds} s, {memory} MB")


def main() -> None:
    """Run all of it."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        analysed(folder, 100_000, 8, 4, 250)
        analysed(folder, 10_000, 64, 15, 250)
        analysed(folder, 300_000, 32, 4, 600)
        if importlib.util.find_spec("pyarrow"):
            path = folder / "votes.parquet"
            write_parquet(path, 1_000_000, 8)
            used = keff("analyze", "--json", str(path))
            timed("analyze 1,000,000 x 8, Parquet", used, 15, 800)
        else:
            print("skipped: Parquet (pyarrow is not installed)")
        path = folder / "replayed.jsonl"
        write_jsonl(path, 100_000, 32)
        chosen = [part for policy in POLICIES for part in ("--policy", policy)]
        used = keff("replay", str(path), *chosen, "--json")
        timed(f"replay of {len(POLICIES)} policies, 100,000 x 32", used, 60, 800)


if __name__ == "__main__":
    main()
