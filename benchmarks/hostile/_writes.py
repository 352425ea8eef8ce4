"""Writes that fail at any byte: the old file is whole, the folder clean, and the next run as any other."""

from __future__ import annotations

import random
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.hostile._files import LOG, in_process
from benchmarks.hostile._tally import Tally

OLD = b"what was there before\n"
NEVER_REPLACED = "paths.jsonl"
"""Paths cost money: an export replaces no file."""
COMMANDS: dict[str, Callable[[str, str], list[str]]] = {
    "paths.jsonl": lambda log, out: ["export", log, "-o", out],
    "plan.json": lambda log, out: ["analyze", log, "-o", out],
    "report.html": lambda log, out: ["report", log, "-o", out],
    "rules.md": lambda log, out: ["replay", log, "fixed:2", "-o", out],
    "joined.jsonl": lambda log, out: ["join", log, log.replace("log", "other"), "-o", out],
    "noise.html": lambda log, out: ["noise", log, "-o", out],
}
"""The file that a command writes, and its arguments."""


@contextmanager
def room(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond so many bytes: the system refuses the write that would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def failing_writes(scratch: Path, inputs: int, seed: int) -> Tally:
    """Run every command that writes a file, with too little room for it."""
    tally, folder = Tally("failing writes"), scratch / "writes"
    out = folder / "out"
    out.mkdir(parents=True)
    (folder / "log.jsonl").write_text(LOG)
    (folder / "other.jsonl").write_text(LOG.replace('answers": ["', 'answers": ["9'))
    whole: dict[str, bytes] = {}
    for number in range(inputs):
        rng = random.Random(f"{seed}|write|{number}")
        name = list(COMMANDS)[number % len(COMMANDS)]
        file, where = out / name, f"seed {seed}, {name} {number}"
        command = COMMANDS[name](str(folder / "log.jsonl"), str(file))
        if name not in whole:
            code, said = in_process(command)
            assert code == 0, said
            whole[name] = file.read_bytes()
        before = None if name == NEVER_REPLACED else OLD
        file.unlink()
        if before is not None:
            file.write_bytes(before)
        size = rng.randrange(len(whole[name]))
        with room(size):
            code, said = in_process(command)
        tally.inputs += 1
        tally.outcomes[f"exit code {code}"] += 1
        tally.check_text(where, said)
        if code not in (1, 2) or name not in said or said.count("\n") > 1 or "internal error" in said:
            tally.fail(f"{where}: {size} bytes: code {code}: {said.strip()[-200:]!r}")
        if (file.read_bytes() if file.exists() else None) != before:
            tally.fail(f"{where}: {size} bytes: the old file has changed")
        if left := sorted(path.name for path in out.iterdir() if path.name not in COMMANDS):
            tally.fail(f"{where}: {size} bytes: left behind: {left}")
        code, said = in_process(command)
        if code or file.read_bytes() != whole[name]:
            tally.fail(f"{where}: the next run: code {code}: {said.strip()[-200:]!r}")
    return tally
