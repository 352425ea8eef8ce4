"""The drift alarm over real HTTP: recorded answers of real models behind the gateway.

``python -m benchmarks.drift [--runs 20] [--quiet-requests 500]``

A plan is made from 100 questions of one record. Then the gateway is asked other questions of the same
benchmark, and its upstream answers with the record of another model or temperature (a big drift) or with the
same record (no drift). A drift counts as big when the mean pairwise agreement of the two whole records
differs by at least as much as in the simulated big drift, 0.26. Aims: of 20 big drifts at least 16 found
within three times the simulated median delay of 24 requests; of 20 undrifted replays at most 4 alarms.
Pairs are taken evenly from all that are big enough, seeds are 0, 1, 2, ..., and the recorded paths of each
question are put into random order, because these records hold them sorted.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from drift_rig import BIG, MEDIAN_DELAY, Record, delay, read  # noqa: E402

RECORDS = ROOT.parent / "shared" / "data" / "recorded"


def big_pairs(records: list[Record], wanted: int) -> list[tuple[Record, Record]]:
    """Return so many pairs with a big drift, evenly from all of them."""
    level = {record.name: record.agreement for record in records}
    pairs = [
        (one, two)
        for one, two in itertools.permutations(records, 2)
        if abs(level[one.name] - level[two.name]) >= BIG
    ]
    return [pairs[place * len(pairs) // wanted] for place in range(min(wanted, len(pairs)))]


def short(record: Record) -> str:
    """Return a record's name without that of the benchmark."""
    return record.name.removeprefix("cruxeval_output_")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--quiet-requests", type=int, default=500)
    arguments = parser.parse_args()
    logging.getLogger("keff.gateway").setLevel(logging.ERROR)
    records = [read(file) for file in sorted(RECORDS.glob("cruxeval_output_*.jsonl"))]
    if not records:
        print(f"skipped: no recorded answers in {RECORDS}")
        return
    limit, delays = 3 * MEDIAN_DELAY, list[int]()
    for seed, (pilot, traffic) in enumerate(big_pairs(records, arguments.runs)):
        found = delay(pilot, traffic, limit, seed)
        delays += [] if found is None else [found]
        change = f"agreement {pilot.agreement:.2f} to {traffic.agreement:.2f}"
        when = "not found" if found is None else f"after {found}"
        print(f"{short(pilot):26} -> {short(traffic):26} {change}  {when}", flush=True)
    false = 0
    for seed in range(arguments.runs):
        record = records[seed % len(records)]
        found = delay(record, record, arguments.quiet_requests, seed)
        false += found is not None
        when = "quiet" if found is None else f"false alarm after {found}"
        print(f"{short(record):26} agreement {record.agreement:.2f}  {when}", flush=True)
    middle = statistics.median(delays) if delays else float("nan")
    print(
        f"claim: big drifts found within {limit} requests | {len(delays)} of {arguments.runs}, "
        f"median delay {middle:g} "
        "| 4 of 5"
    )
    quiet = f"{arguments.quiet_requests} undrifted requests"
    print(f"claim: false drift alarms in {quiet} | {false} of {arguments.runs} | at most 1 of 5")


if __name__ == "__main__":
    main()
