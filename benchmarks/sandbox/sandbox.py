"""How fast untrusted programs are executed and scored, and that every MBPP program passes its own tests."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from benchmarks.places import QUESTIONS
from keff import sandbox
from keff.plugins import load
from keff.task import items

MBPP = QUESTIONS / "mbpp.jsonl"
GOLD = {"imports": [], "tests": ["assert f(2) == 4", "assert f([1]) == 5", "assert f(7) == 49"]}
CODE = "def f(x):\n    return x * x if isinstance(x, int) else 5"
REPEATS = 60
TARGET = 20.0


def per_second(run: Callable[[int], object], threads: int) -> float:
    """Return executions a second over all threads."""
    with ThreadPoolExecutor(threads) as pool:
        started = time.perf_counter()
        list(pool.map(run, range(REPEATS)))
        return REPEATS / (time.perf_counter() - started)


def main() -> None:
    """Print executions a second beside those of a bare interpreter, then check the data's own programs."""
    jailed, bare = load("task", "mbpp"), load("task", "mbpp", unsafe_exec=True)
    started = time.perf_counter()
    sandbox.preflight()
    print(f"preflight, once a process: {time.perf_counter() - started:.2f} s")
    cores = len(os.sched_getaffinity(0))
    base: dict[int, float] = {}
    print(f"{'':<34}{'threads':>8}{'per s':>8}{'per s, core':>12}{'of bare':>9}")
    for name, run in (
        ("bare interpreter, empty program", lambda _: sandbox.run("pass", unsafe=True)),
        ("jail, empty program", lambda _: sandbox.run("pass")),
        ("bare interpreter, MBPP scored", lambda _: bare.ran(CODE, GOLD)),
        ("jail, MBPP scored", lambda _: jailed.ran(CODE, GOLD)),
    ):
        for threads in sorted({1, cores}):
            rate = per_second(run, threads)
            ratio = rate / base.setdefault(threads, rate)
            print(f"{name:<34}{threads:>8}{rate:>8.1f}{rate / threads:>12.1f}{ratio:>9.2f}")
    print(f"claim: MBPP programs in the jail, a second and core | {rate / cores:.1f} | at least {TARGET:.0f}")
    if not MBPP.is_file():
        print(f"skipped: no MBPP programs in {MBPP}")
    else:
        task = load("task", "mbpp", data=str(MBPP))
        chosen = list(items(task))
        with ThreadPoolExecutor(cores) as pool:
            passed = list(pool.map(lambda item: task.correct(item.meta["solution"], item.gold), chosen))
        failed = [item.id for item, each in zip(chosen, passed, strict=True) if not each]
        print(f"claim: MBPP programs that pass their own tests | {sum(passed)} of {len(chosen)} | all")
        print(*failed)


if __name__ == "__main__":
    main()
