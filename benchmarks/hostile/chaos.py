"""Attack everything that reads what others wrote, and say what broke: nothing may.

    python -m benchmarks.hostile.chaos [--inputs 20000] [--seed 0] [PART ...]

Parts:

- ``sampling``: a server with 60 kinds of faults at 40% of its answers, sessions killed at random;
- ``disk``: a file system that fills up; ``writes``: files of every command that find no room;
- ``logs``: mutated logs of every format; ``otherwise``: the same meaning in other bytes;
- ``runs``: run folders damaged after they were closed, or after a kill;
- ``toml``: typing errors in price tables, studies, branches and prompts;
- ``clock``: one that jumps while paths are drawn;
- ``keys``: functions of ``--answer-key`` that hang, fork, end or lie;
- ``gateway``: requests made by a grammar, every field of which may be odd, before the same faulty server;
- ``heads``: requests whose end is doubtful, compared with how h11 reads them;
- ``deaf``, ``hangup``, ``pages``: clients that never read, that leave with the last byte of an answer, and
  web pages of another origin;
- ``sandbox``: hostile programs, alone and combined.

All of it is local: servers listen on 127.0.0.1 and files lie in a temporary folder. Failures are printed with
the seed and number that repeat them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.hostile._clients import clients_that_hang_up, clients_that_never_read, foreign_pages
from benchmarks.hostile._files import hostile_keys, jumping_clock, toml_typos
from benchmarks.hostile._gateway import hostile_clients
from benchmarks.hostile._heads import hostile_heads
from benchmarks.hostile._otherwise import written_otherwise
from benchmarks.hostile._runs import damaged_runs
from benchmarks.hostile._sampling import faults_and_kills, full_disk
from benchmarks.hostile._sandbox import hostile_programs
from benchmarks.hostile._tally import Tally
from benchmarks.hostile._writes import failing_writes
from benchmarks.logs import log_fuzz
from benchmarks.logs.log_bases import FORMATS, draws


def mutated_logs(scratch: Path, inputs: int, seed: int) -> Tally:
    """Read mutated logs of every format; see ``log_fuzz``."""
    tally = Tally("logs")
    for name, make in FORMATS.items():
        folder = scratch / "logs" / name
        folder.mkdir(parents=True)
        try:
            base = make(folder, draws())
        except ImportError:
            tally.outcomes[f"skipped: {name}: pyarrow is not installed"] = 1
            continue
        read = log_fuzz.fuzz(base, -(-inputs // len(FORMATS)), seed)
        tally.inputs += read.inputs
        tally.outcomes.update({"refused": read.refused, "read as they were": read.true})
        for failure in read.wrong:
            tally.fail(f"seed {seed}, {name} {failure}")
    return tally


PARTS: dict[str, tuple[float, Callable[[Path, int, int], Tally]]] = {
    "sampling": (0.2, faults_and_kills),
    "disk": (0.0005, full_disk),
    "logs": (0.4, mutated_logs),
    "otherwise": (0.02, written_otherwise),
    "runs": (0.02, damaged_runs),
    "writes": (0.002, failing_writes),
    "toml": (0.01, toml_typos),
    "clock": (0.0005, jumping_clock),
    "keys": (0.0006, hostile_keys),
    "gateway": (0.37, hostile_clients),
    "heads": (0.1, hostile_heads),
    "deaf": (0.004, clients_that_never_read),
    "hangup": (0.003, clients_that_hang_up),
    "pages": (0.003, foreign_pages),
    "sandbox": (0.01, hostile_programs),
}
"""The share of the inputs of each part: a mutated log takes a millisecond, a hostile program a second."""


def main() -> None:
    """Run the parts in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART")
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    inputs = failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in asked.parts or PARTS:
            share, attack = PARTS[name]
            begun = time.monotonic()
            tally = attack(Path(scratch), max(2, round(asked.inputs * share)), asked.seed)
            inputs, failures = inputs + tally.inputs, failures + len(tally.failures)
            print(*tally.lines(), f"  {time.monotonic() - begun:.0f} s", sep="\n", flush=True)
    print(f"claim: hostile inputs that broke something | {failures} of {inputs} | 0")
    raise SystemExit(failures > 0)


if __name__ == "__main__":
    main()
