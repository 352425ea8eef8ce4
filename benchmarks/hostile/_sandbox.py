"""Programs that try to leave the jail, to pass without being right, or to hurt the machine."""

from __future__ import annotations

import random
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.hostile._tally import Tally
from benchmarks.places import ROOT
from keff.plugins import load
from keff.sandbox import Limits
from keff.tasks.mbpp import Mbpp

HOSTILE = sorted((ROOT / "tests" / "sandbox" / "hostile").glob("*.py"))
"""One program of each kind of attack."""
GOLD = {"imports": [], "tests": ["assert f(2) == 4", "assert f(7) == 49"]}
LIMITS = Limits(seconds=1.5, cpu=1, file_bytes=8 << 20)
SECONDS = 20.0
"""Longest time of one program, start of the jail on a busy machine included; its own limit is below 2."""


def program(rng: random.Random) -> tuple[str, str]:
    """Return a name and a program: an attack alone, after another, changed, in a thread or when called."""
    first, second = rng.sample(HOSTILE, 2)
    source, other = first.read_text("utf-8"), second.read_text("utf-8")
    form = rng.choice(("alone", "after another", "with a letter changed", "in a thread", "when called"))
    if form == "after another":
        return (
            f"{first.stem} after {second.stem}",
            f"try:\n{_inside(other)}\nexcept BaseException:\n    pass\n{source}",
        )
    if form == "with a letter changed":
        place = rng.randrange(len(source))
        return f"{first.stem} {form}", source[:place] + chr(rng.randrange(32, 127)) + source[place + 1 :]
    if form == "in a thread":
        start = "import threading\nthreading.Thread(target=_attack, daemon=False).start()"
        return f"{first.stem} {form}", f"def _attack():\n{_inside(source)}\n{start}\ndef f(x): return -1\n"
    if form == "when called":
        return f"{first.stem} {form}", f"def f(x):\n{_inside(source)}\n    return -1\n"
    return first.stem, source


def _inside(source: str) -> str:
    lines = [line for line in source.splitlines() if not line.startswith("from __future__")]
    return "\n".join(["    pass", *(f"    {line}" for line in lines)])


def attack(number: int, folder: Path, seed: int) -> tuple[str, str | None]:
    """Run one program; returns its name and what went wrong, or None."""
    name, source = program(random.Random(f"{seed}|{number}"))
    place = folder / f"host {number}"
    place.mkdir(parents=True)
    canary = place / "canary"
    canary.write_text("untouched")
    known = f"CANARY = {str(canary)!r}\nPORT = 9\nABSTRACT = 'keff'\nHOME = {str(Path.home())!r}\n"
    task: Mbpp = load("task", "mbpp")
    task.limits = LIMITS
    begun = time.monotonic()
    passed = task.ran(known + source, GOLD).correct
    took = time.monotonic() - begun
    where = f"seed {seed}, program {number} ({name})"
    if passed:
        return name, f"{where}: passed"
    if canary.read_text() != "untouched" or len(list(place.iterdir())) != 1:
        return name, f"{where}: wrote outside"
    return name, f"{where}: {took:.0f} s" if took > SECONDS else None


def hostile_programs(scratch: Path, programs: int, seed: int) -> Tally:
    """Run the programs, two at once."""
    tally = Tally("sandbox")
    if shutil.which("bwrap") is None:
        tally.outcomes["skipped: bubblewrap is not installed"] = 1
        return tally
    with ThreadPoolExecutor(2) as pool:
        for _, wrong in pool.map(lambda number: attack(number, scratch / "sandbox", seed), range(programs)):
            tally.inputs += 1
            tally.outcomes["held" if wrong is None else "failed"] += 1
            if wrong is not None:
                tally.fail(wrong)
    return tally
