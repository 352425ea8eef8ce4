"""The drift alarm over real HTTP: recorded answers of real models behind the gateway.

``python -m benchmarks.gateway.drift [--runs 20] [--quiet-requests 500]``

A plan is made from 100 questions of one record. Then the gateway is asked other questions of the same
benchmark, and its upstream answers with the record of another model or temperature (a big drift) or with the
same record (no drift). A drift counts as big when the mean pairwise agreement of the two whole records
differs by at least as much as in the simulated big drift, 0.26. Aims: of 20 big drifts at least 16 found
within three times the simulated median delay of 24 requests; of 20 undrifted replays at most 4 alarms.

A second part (``--deployed``), without HTTP, measures changes of agreement (.07 to .12, and .2 to .35) at the
plan that ``keff`` would recommend for each record (99% kept, from a pilot of 100 x 8): how often each alarm
of the gateway comes within 500 requests of a change that is there from the start, after 500 requests, or
after 3,000; and how often it came before the change. The 5% of false alarms of the looks holds for
exchangeable traffic: questions that come in bursts of one kind are not.

A third part (``--arrival``) counts false alarms under votes on arrival: the gateway's vote over simulated
paths whose wrong answers run three times as long, every request a shadow one, with 4 and with 8 in flight.

Pairs are taken evenly from all that are big enough, seeds are 0, 1, 2, ..., and the recorded paths of each
question are put into random order, because these records hold them sorted.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import statistics
import sys
from collections import Counter

import numpy as np

from benchmarks.families import records as votes_of
from benchmarks.places import RECORDED, RIGS
from keff.analysis.decision import Aim, decide
from keff.gateway.traffic.monitor import Monitor, stops_at
from keff.gateway.traffic.traffic import profile_of
from keff.gateway.upstream.answer import Answer
from keff.gateway.vote.vote import PathResult, Vote
from keff.plan import Plan
from keff.policy import parse_policy
from keff.protocol.server import Sharing

sys.path.insert(0, str(RIGS))

from drift_rig import BIG, MEDIAN_DELAY, PATHS, PILOT, Record, delay, profile, read
from jumping import on_a_clock

# Changes of the mean pairwise agreement.
CHANGES = {"small": (0.07, 0.12), "big": (0.2, 0.35)}
# Requests like the pilot's before the change.
BEFORE = (0, 500, 3000)


def big_pairs(records: list[Record], wanted: int) -> list[tuple[Record, Record]]:
    """Return so many pairs with a big drift, evenly from all of them."""
    level = {record.name: record.agreement for record in records}
    pairs = [
        (one, two)
        for one, two in itertools.permutations(records, 2)
        if abs(level[one.name] - level[two.name]) >= BIG
    ]
    return [pairs[place * len(pairs) // wanted] for place in range(min(wanted, len(pairs)))]


def alarms(
    plan: Plan, pilot: Record, traffic: Record, order: list[str], before: int, seed: int, requests: int
) -> tuple[dict[str, bool], dict[str, bool]]:
    """Return the alarms of a gateway before a change of its traffic, and so many requests after it."""
    rng = np.random.default_rng(seed)
    policy = parse_policy(plan.policy)
    monitor = Monitor(plan, policy)

    def asked(record: Record, times: int) -> dict[str, bool]:
        for question in rng.choice(order, times).tolist():
            keys = [record.keys[question][place] for place in rng.permutation(PATHS)]
            named = [None if key is None else str(key) for key in keys]
            monitor.observe(named[: stops_at(policy, named, PATHS)])
        return monitor.alarms

    return asked(pilot, before), asked(traffic, requests)


def recommended(records: list[Record]) -> dict[str, str]:
    """Return the rule that a pilot of each record is told to deploy, by the record's name."""
    named = {record.name: record.votes for record in votes_of(PATHS)}
    plans: dict[str, str] = {}
    for record in records:
        votes = named[record.name]
        rows = np.random.default_rng(1).choice(votes.n, PILOT, replace=False)
        sample = votes.take(rows).paths(range(PATHS))
        plans[record.name] = decide(sample, Aim(retain=0.99), now="32").decision.policy
    return plans


def deployed(records: list[Record], runs: int, requests: int = 500) -> None:
    """Print how often each alarm finds a change at the recommended plans, by its size and time."""
    level, plans = {record.name: record.agreement for record in records}, recommended(records)
    for size, (least, most) in CHANGES.items():
        pairs = [
            (pilot, traffic)
            for pilot, traffic in itertools.permutations(records, 2)
            if least <= abs(level[pilot.name] - level[traffic.name]) <= most
        ]
        for before in BEFORE:
            false, found = Counter[str](), Counter[str]()
            for seed in range(runs):
                pilot, traffic = pairs[seed * 7 % len(pairs)]
                order: list[str] = np.random.default_rng(seed).permutation(sorted(pilot.keys)).tolist()
                plan = Plan(policy=plans[pilot.name], estimates={}, profile=profile(pilot, order[:PILOT]))
                early, late = alarms(plan, pilot, traffic, order[PILOT:], before, seed, requests)
                false.update(name for name, on in early.items() if on)
                found.update(name for name, on in late.items() if on and not early[name])
                false["any"] += any(early.values())
                found["any"] += any(late.values()) and not any(early.values())
            print(f"{size} change after {before} requests: found {dict(found)} of {runs}")
            print(f"    before it {dict(false)}", flush=True)


def on_arrival(width: int, runs: int, requests: int = 300) -> None:
    """Print how often votes on arrival raise an alarm in stationary traffic after a pilot of 100 x 8."""
    policy = parse_policy(f"lead_k:3,cap=8,in_flight={width},order=arrival")

    def asked(rng: np.random.Generator) -> tuple[list[str], list[float]]:
        codes = rng.choice(4, 8, p=rng.dirichlet([0.6, 0.3, 0.2, 0.1]))
        seconds = rng.lognormal(rng.normal(0, 0.5), 0.4, 8) * np.where(codes == 0, 1, 3)
        return codes.astype(str).tolist(), seconds.tolist()

    async def judge(answer: Answer) -> list[PathResult]:
        return [PathResult(choice, {}, str(choice["key"])) for choice in answer.choices]

    async def traffic(monitor: Monitor, rng: np.random.Generator) -> None:
        for _ in range(requests):
            keys, seconds = asked(rng)

            async def path(
                place: int, _n: int, _branch: str, keys: list[str] = keys, seconds: list[float] = seconds
            ) -> Answer:
                await asyncio.sleep(seconds[place])
                return Answer([{"key": keys[place]}], {})

            vote = Vote(policy, path, judge, Sharing(1), keep=True, free_text="draw")
            await vote.run()
            monitor.observe(await vote.extend(monitor.m))

    alarms = Counter[str]()
    for seed in range(runs):
        rng = np.random.default_rng([seed, width])
        profile = profile_of([asked(rng)[0] for _ in range(PILOT)], 8)
        monitor = Monitor(Plan(policy=policy.spec, estimates={}, profile=profile), policy)
        on_a_clock(traffic(monitor, rng))
        alarms.update(name for name, on in monitor.alarms.items() if on)
        alarms["any"] += any(monitor.alarms.values())
    print(
        f"claim: false alarms in {requests} requests, votes on arrival, {width} in flight | "
        f"{alarms['any']} of {runs}: {dict(alarms)} | at most 5%, and one in 20,000 requests",
        flush=True,
    )


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
    parser.add_argument(
        "--deployed", type=int, default=100, help="runs of the second part; alone with --runs 0"
    )
    parser.add_argument("--arrival", type=int, default=100, help="runs of the third part")
    arguments = parser.parse_args()
    logging.getLogger("keff.gateway").setLevel(logging.ERROR)
    for width in (4, 8) if arguments.arrival else ():
        on_arrival(width, arguments.arrival)
    records = [read(file) for file in sorted(RECORDED.glob("cruxeval_output_*.jsonl"))]
    if arguments.deployed:
        deployed(records, arguments.deployed)
    if not arguments.runs:
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
