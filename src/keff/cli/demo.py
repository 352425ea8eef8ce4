"""Measure a small real model on this machine, in minutes.

It asks SmolLM2-135M-Instruct until it can tell whether voting pays (--n questions at most), and writes
plan.json and report.html into the run; the same command goes on where it stopped. Time to answer is left out
of its decision, since all paths share this machine.

Example: keff demo answers.csv
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from json import loads
from pathlib import Path
from typing import Annotated

import typer

from keff.analysis.decision import Aim
from keff.analysis.estimates import Settings, analyze
from keff.analysis.plans import make_plan
from keff.analysis.results.estimates import Analysis
from keff.analysis.results.words import first_sentence
from keff.cli import _options as o
from keff.cli import _sample_options as s
from keff.cli._console import note
from keff.cli._sampling import SampleOptions, draw, report
from keff.cli.analyze import show
from keff.engines._local import cores
from keff.errors import LogError, PluginError
from keff.reading.open import Opening, Record, open_record
from keff.report.write import write_runs


def write_report_if_possible(runs: Sequence[tuple[Record, Analysis]], file: Path) -> bool:
    """Write the report page; where its extra is missing, say so and return False."""
    try:
        write_runs(runs, file)
    except PluginError as error:
        note(f"No report page: {error}")
        return False
    return True


# What was measured on five workloads of docs/atlas, a sentence each: written by scripts/write_readme.py.
FILE = Path(__file__).with_name("_beside.json")

# Questions before the first look at what they say, and between looks.
FIRST, MORE = 24, 8

SETTLED = ("vote", "ask once")

BEGIN = "keff asks {} each question {} times, and stops once it knows whether votes pay. Limit on {}."


def patience() -> tuple[float, str]:
    """Return the time limit in seconds for starting further rounds on this machine, and its words.

    One core draws half as many paths a second as two; more are as two.
    """
    return (360.0, "one core: six minutes") if cores() == 1 else (180.0, "two cores: three minutes")


def decided(wishes: SampleOptions, most: int) -> tuple[Record, Analysis]:
    """Draw rounds until the decision is settled, time is up or ``most`` questions are asked."""
    begun = time.monotonic()
    size = min(FIRST, most)
    while True:
        job = replace(wishes, n=size).job()
        report(job, draw(job))
        record = open_record(wishes.run, Opening(texts=True))
        # How long a path takes here, where all share two cores, says nothing of a server.
        estimates = analyze(record, Settings(seed=wishes.seed, aim=Aim(slower=None)))
        # The next round takes as long for each question as those before.
        late = (time.monotonic() - begun) * (1 + MORE / size) > patience()[0]
        if estimates.decision.verdict in SETTLED or size == most or late:
            return record, estimates
        size = min(size + MORE, most)


def command(
    log: Annotated[
        Path | None, typer.Argument(metavar="LOG", help="Your own log, analyzed after the demo.")
    ] = None,
    run: s.RunFolder = Path("demo-run"),
    n: s.N = 128,
    k: s.K = 8,
    seed: s.Seed = 0,
    model: s.Model = None,
    json: o.Json = False,
) -> None:
    """Sample SmolLM2-135M-Instruct on this machine until keff knows whether votes pay.

    Asks at most --n questions, and writes plan.json and report.html into the run. The same command goes on
    where it stopped. With LOG it ends in the decision for that log.
    """
    try:
        own = [(mine, analyze(mine, Settings())) for mine in map(open_record, filter(None, [log]))]
    except LogError as error:
        # What it recommends are options of other commands.
        line = f"{log} cannot be read as it is: keff analyze {log} says why, and what to do"
        raise LogError(line) from error
    if not run.exists():
        note(BEGIN.format(model or "SmolLM2-135M-Instruct", k, patience()[1]))
    wishes = SampleOptions(
        task="starter",
        run=run,
        engine="llamacpp",
        engine_option=["logprobs=false"],
        model=model,
        n=n,
        k=k,
        seed=seed,
    )
    record, estimates = decided(wishes, n)
    make_plan(record, estimates).write(run / "plan.json")
    show([(record, estimates), *own], json=json)
    if not json:
        note("\nBeside it, recorded generations of larger models (the atlas in the documentation has 60):")
        for line in loads(FILE.read_text("utf-8")):
            note(f"  {line}")
    if write_report_if_possible([(record, estimates)], run / "report.html"):
        note(f"\n{run / 'report.html'} has the curve and every path: open it in a browser.")
    end(estimates, own, run, more=record.ballot.votes.n < n)


def end(estimates: Analysis, own: Sequence[tuple[Record, Analysis]], run: Path, *, more: bool) -> None:
    """Print the decision, and the commands to run next."""
    note(f"\nDecision: {first_sentence(estimates.decision)}")
    for mine, found in own:
        note(f"For {mine.path}: {first_sentence(found.decision)}")
    if estimates.decision.verdict not in SETTLED and more:
        note(f"keff demo --run {run} asks more questions, and keeps those that it has.")
    note(f"keff serve --plan {run / 'plan.json'} --upstream URL deploys it.")
    note("keff left out the time to answer here. keff analyze and keff pilot take it into account.")
