"""Large records: processor time against json.loads over the same file, and peak memory, each in a process.

    python -m benchmarks.cli.scale

Writes synthetic records (short answers to questions of unequal difficulty, some of them abstentions), then
runs commands on them as a user would. Times are processor seconds of the whole process, start-up included:
the median of twenty turns for the start, of three beside json.loads and for growth. Growth is the exponent of
the time without start-up in the number of questions, or of paths.
"""

from __future__ import annotations

import argparse
import compileall
import importlib.util
import json
import math
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
# As many where no more than eight paths are recorded.
SHORT = (
    *("fixed:2", "fixed:4", "fixed:8", "curtailed:cap=8", "adaptive_consistency:0.9,cap=8"),
    *("adaptive_consistency:0.95,cap=8", "adaptive_consistency:0.99,cap=8", "lead_k:2,cap=8"),
    *("lead_k:3,cap=8", "esc:4,cap=8", "budget:2,cap=8", "budget:4,cap=8"),
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


def codes_of(n: int, k: int, seed: int, arm: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return gold answers [n] and answers [n, k], right as often as the question is easy, else one of six.

    Numbers below 1000; an abstention is -1. Another ``arm`` answers the same questions.
    """
    rng = np.random.default_rng(seed)
    gold, wrong = rng.integers(0, 1000, n), rng.integers(0, 1000, (n, 6))
    rng = np.random.default_rng([seed, arm]) if arm else rng
    pick = rng.choice(6, (n, k), p=[0.4, 0.25, 0.15, 0.1, 0.05, 0.05])
    right = rng.random((n, k)) < rng.beta(1.2, 0.9, (n, 1))
    codes = np.where(right, gold[:, None], np.take_along_axis(wrong, pick, axis=1))
    codes[rng.random((n, k)) < 0.02] = -1
    return gold, codes


def answers(n: int, k: int, seed: int, arm: int = 0) -> tuple[list[str], list[list[str | None]]]:
    """Return gold answers [n] and answers [n][k] as texts, None for an abstention."""
    gold, codes = codes_of(n, k, seed, arm)
    drawn = [[None if code < 0 else str(code) for code in row] for row in codes.tolist()]
    return [str(each) for each in gold.tolist()], drawn


def write_jsonl(path: Path, n: int, k: int, arm: int = 0) -> None:
    """Write a record as JSONL, some thousand questions at a time."""
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, n, 10_000):
            gold, drawn = answers(min(10_000, n - start), k, start, arm)
            for place, (own, row) in enumerate(zip(gold, drawn, strict=True), start):
                file.write(json.dumps({"id": f"q{place}", "gold_answer": own, "all_answers": row}) + "\n")


def write_parquet(path: Path, n: int, k: int) -> None:
    """Write a record as Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = pa.array([*map(str, range(1000)), None])
    kinds = {"id": pa.string(), "gold_answer": pa.string(), "all_answers": pa.list_(pa.string())}
    with pq.ParquetWriter(path, pa.schema(kinds.items())) as writer:
        for start in range(0, n, 100_000):
            gold, drawn = codes_of(min(100_000, n - start), k, start)
            size = len(gold)
            lists = pa.ListArray.from_arrays(
                pa.array(np.arange(size + 1) * k, pa.int32()),
                names.take(pa.array(np.where(drawn < 0, 1000, drawn).ravel())),
            )
            ids = pa.array([f"q{place}" for place in range(start, start + size)])
            columns = [ids, names.take(pa.array(gold)), lists]
            writer.write_table(pa.Table.from_arrays(columns, schema=writer.schema))


def compiled() -> None:
    """Compile what is measured as installers do: where no bytecode may be written each start would do so."""
    for name in ("keff", "numpy", "scipy", "typer", "pydantic", "pyarrow"):
        if (found := importlib.util.find_spec(name)) and found.origin:
            compileall.compile_dir(Path(found.origin).parent, quiet=1)


def keff(*arguments: str) -> Cost:
    """Run keff in a process."""
    return cost(sys.executable, "-m", "keff", *arguments)


def median(turns: int, *arguments: str) -> Cost:
    """Run keff several times, and return the cost of the median run by time."""
    return sorted((keff(*arguments) for _ in range(turns)), key=lambda used: used.seconds)[turns // 2]


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


def grows(what: str, sizes: tuple[int, int], times: list[float], most: float) -> None:
    """Say how the time of a command grows with what it reads."""
    exponent = math.log(times[1] / times[0]) / math.log(sizes[1] / sizes[0])
    print(f"{what}: {times[0]:.2f} and {times[1]:.2f} s after start-up at {sizes[0]:,} and {sizes[1]:,}")
    print(f"claim: growth of {what} | exponent {exponent:.2f} | at most {most:.2f}")


def main() -> None:
    """Run all of it."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    compiled()
    chosen = [part for policy in POLICIES for part in ("--policy", policy)]
    short = [part for policy in SHORT for part in ("--policy", policy)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tiny, path = folder / "tiny.jsonl", folder / "record.jsonl"
        write_jsonl(tiny, 10, 8)
        started = median(20, "analyze", "--json", str(tiny)).seconds
        print(f"claim: start-up, analyze of 10 x 8 | {started:.2f} s | under 0.3 s")
        analysed(folder, 100_000, 8, 4, 250)
        first, second = str(folder / "100000x8.jsonl"), folder / "second.jsonl"
        timed("read 100,000 x 8", keff("read", "--json", first), 2, 350)
        write_jsonl(second, 100_000, 8, arm=1)
        timed("compare two of 100,000 x 8", keff("compare", "--json", first, str(second)), 5, 400)
        timed("mix two of 100,000 x 8", keff("mix", "--json", first, str(second)), 20, 600)
        analysed(folder, 10_000, 64, 15, 250)
        analysed(folder, 300_000, 32, 4, 600)
        found: dict[tuple[str, int], float] = {}
        for n, seconds, memory in ((100_000, 5, 350), (1_000_000, 20, 800)):
            write_jsonl(path, n, 8)
            found["analyze", n] = median(3, "analyze", "--json", str(path)).seconds - started
            used = median(3, "replay", str(path), *short, "--json")
            found["replay", n] = used.seconds - started
            timed(f"replay of {len(SHORT)} policies, {n:,} x 8", used, seconds, memory)
        for what in ("analyze", "replay"):
            times = [found[what, 100_000], found[what, 1_000_000]]
            grows(f"{what} with questions (x 8)", (100_000, 1_000_000), times, 1.05)
        for k in (32, 256):
            write_jsonl(path, 10_000, k)
            for what, options in (("analyze", []), ("replay", chosen), ("read", []), ("noise", [])):
                used = median(3, what, str(path), *options, "--json")
                found[what, k] = used.seconds - started
                if k == 256:
                    timed(f"{what} 10,000 x 256", used, 10, 800)
        made = {"report": "report.html", "export": "exported.jsonl"}
        for what in ("combine", "report", "export"):
            options = ["--out", str(folder / made[what])] if what in made else []
            timed(f"{what} 10,000 x 256", keff(what, str(path), *options, "--json"), 10, 800)
        for what in ("analyze", "replay"):
            grows(
                f"{what} with paths (10,000 questions)", (32, 256), [found[what, 32], found[what, 256]], 1.2
            )
        write_jsonl(path, 100_000, 32)
        used = keff("replay", str(path), *chosen, "--json")
        timed(f"replay of {len(POLICIES)} policies, 100,000 x 32", used, 60, 800)
        if not importlib.util.find_spec("pyarrow"):
            print("skipped: Parquet (pyarrow is not installed)")
            return
        path = folder / "votes.parquet"
        for n, seconds, memory in ((1_000_000, 15, 800), (12_500_000, 90, 1500)):
            write_parquet(path, n, 8)
            timed(f"analyze {n:,} x 8, Parquet", keff("analyze", "--json", str(path)), seconds, memory)
        timed("replay 12,500,000 x 8, Parquet", keff("replay", str(path), *short, "--json"), 120, 1500)
        page = str(folder / "page.html")
        timed("report 12,500,000 x 8, Parquet", keff("report", str(path), "-o", page), 120, 1500)


if __name__ == "__main__":
    main()
