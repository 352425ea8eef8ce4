"""The drift alarm over real HTTP: recorded answers of real models behind the gateway.

``python -m benchmarks.gateway.drift [--runs 20] [--quiet-requests 500]``

A plan is made from 100 questions of one record. Then the gateway is asked other questions of the same
benchmark, and its upstream answers with the record of another model or temperature (a big drift) or with the
same record (no drift). A drift counts as big when the mean pairwise agreement of the two whole records
differs by at least as much as in the simulated big drift, 0.26. Aims: of 20 big drifts at least 16 found
within three times the simulated median delay of 24 requests; of 20 undrifted replays at most 4 alarms.

A second part, without HTTP, measures smaller changes of agreement (.07 to .12) at the plan that ``keff``
would recommend for each record (99% kept, from a pilot of 100 x 8): how often an alarm comes within 500
requests when the score is the agreement of the first two paths, the stop of the rule (what the gateway uses),
and the agreement of four paths, as shadow draws of every request to four would give it; by a martingale with
all of the 5%, and by what the gateway runs: a martingale with 1% and looks at the mean with 4%. For pilots of
100 and of 300 questions, for what a pilot shows limits what any score can find. The 5% of false alarms holds
for exchangeable traffic: questions that come in bursts of one kind are not.

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
from collections.abc import Callable

import numpy as np

from benchmarks.families import records as votes_of
from benchmarks.places import RECORDED, RIGS
from keff.analysis.decision import Aim, decide
from keff.gateway.traffic.monitor import ALPHA, LOOKS_ALPHA, ORDERS, Monitor, stops_at
from keff.gateway.traffic.traffic import profile_of
from keff.gateway.upstream.answer import Answer
from keff.gateway.vote.vote import Drawn, Vote
from keff.plan import Plan
from keff.policy import parse_policy
from keff.protocol.server import Sharing
from keff.stats.alarms import ConformalMartingale, MeanLooks
from keff.stats.drift import agreeing_pairs, stop_score

sys.path.insert(0, str(RIGS))

from drift_rig import BIG, MEDIAN_DELAY, PATHS, PILOT, Record, delay, read
from jumping import on_a_clock

Score = Callable[[list[str | None]], float]
SMALL = (0.07, 0.12)
SIZES = (100, 300)


def big_pairs(records: list[Record], wanted: int) -> list[tuple[Record, Record]]:
    """Return so many pairs with a big drift, evenly from all of them."""
    level = {record.name: record.agreement for record in records}
    pairs = [
        (one, two)
        for one, two in itertools.permutations(records, 2)
        if abs(level[one.name] - level[two.name]) >= BIG
    ]
    return [pairs[place * len(pairs) // wanted] for place in range(min(wanted, len(pairs)))]


def first_agree(m: int) -> Score:
    """Return the score of the agreeing pairs among the first m paths."""
    return lambda keys: agreeing_pairs(Counter(key for key in keys[:m] if key is not None).values())


def stop_of(spec: str) -> Score:
    """Return the score of when a rule stops, as the gateway takes it."""
    policy = parse_policy(spec)
    return lambda keys: stop_score(keys, stops_at(policy, keys, PATHS), PATHS)


def alarms(
    pilot: Record, traffic: Record, scores: dict[str, Score], size: int, seed: int, requests: int
) -> dict[str, bool]:
    """Return by which scores and tests an alarm comes within so many requests, after a pilot of ``size``."""
    rng = np.random.default_rng(seed)
    order: list[str] = rng.permutation(sorted(pilot.keys)).tolist()

    def drawn(record: Record, question: str) -> list[str | None]:
        keys = [record.keys[question][place] for place in rng.permutation(PATHS)]
        return [None if key is None else str(key) for key in keys]

    agreement = [pair_share(pilot.keys[q]) for q in order[:size]]
    before = [[drawn(pilot, q) for q in order[:size]] for _ in range(ORDERS)]
    after = [drawn(traffic, q) for q in order[size : size + requests]]
    hits: dict[str, bool] = {}
    for name, score in scores.items():
        shown = [[score(keys) for keys in each] for each in before]
        alone, beside = (
            ConformalMartingale(shown[0], np.random.default_rng([seed, 1]), alpha) for alpha in (0.05, ALPHA)
        )
        looks = MeanLooks(np.transpose(shown), agreement, LOOKS_ALPHA)
        for keys in after:
            for stream in (alone, beside, looks):
                stream.update(score(keys))
        hits[f"{name}, martingale"] = alone.alarm
        hits[f"{name}, as deployed"] = beside.alarm or looks.alarm
    return hits


def pair_share(keys: list[int | None]) -> float:
    """Return the share of pairs of paths that agree."""
    known = [key for key in keys if key is not None]
    return sum(known.count(key) - 1 for key in known) / (len(keys) * (len(keys) - 1))


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
    """Print how often small changes are found at the recommended plans, by score and pilot."""
    level, plans = {record.name: record.agreement for record in records}, recommended(records)
    pairs = [
        (pilot, traffic)
        for pilot, traffic in itertools.permutations(records, 2)
        if SMALL[0] <= abs(level[pilot.name] - level[traffic.name]) <= SMALL[1]
    ]

    def run(pilot: Record, traffic: Record, size: int, seed: int) -> dict[str, bool]:
        scores = {"first two": first_agree(2), "stop of the rule": stop_of(plans[pilot.name])}
        return alarms(pilot, traffic, scores | {"first four": first_agree(4)}, size, seed, requests)

    alarmed = Counter[str]()
    for size in SIZES:
        hits = [run(*pairs[seed * 7 % len(pairs)], size, seed) for seed in range(runs)]
        quiet = [records[seed % len(records)] for seed in range(runs)]
        false = [run(record, record, size, 1000 + seed) for seed, record in enumerate(quiet)]
        for name in hits[0]:
            found, wrong = sum(hit[name] for hit in hits), sum(hit[name] for hit in false)
            alarmed[name.rpartition(", ")[2]] += wrong
            print(f"pilot of {size}, {name}: found {found} of {runs}, false {wrong} of {runs}", flush=True)
    whole = runs * len(SIZES) * len(hits[0]) // len(alarmed)
    for way, wrong in alarmed.items():
        what = f"false alarms in {requests} requests, recommended plans, {way}"
        print(f"claim: {what} | {wrong} of {whole:,} | at most 5%")


def on_arrival(width: int, runs: int, requests: int = 300) -> None:
    """Print how often votes on arrival raise an alarm in stationary traffic after a pilot of 100 x 8."""
    policy = parse_policy(f"lead_k:3,cap=8,in_flight={width},order=arrival")

    def asked(rng: np.random.Generator) -> tuple[list[str], list[float]]:
        codes = rng.choice(4, 8, p=rng.dirichlet([0.6, 0.3, 0.2, 0.1]))
        seconds = rng.lognormal(rng.normal(0, 0.5), 0.4, 8) * np.where(codes == 0, 1, 3)
        return codes.astype(str).tolist(), seconds.tolist()

    async def judge(answer: Answer) -> list[Drawn]:
        return [Drawn(choice, {}, str(choice["key"])) for choice in answer.choices]

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
