"""Check before a paid run: draw a few items, forecast the cost, and ask."""

from __future__ import annotations

import sys
import time
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import typer

from keff import plugins
from keff.cli._console import note
from keff.cli._sampling import RunsProgress, SampleOptions, draw
from keff.errors import RunError, UsageError
from keff.records import text_table
from keff.sampling import RUN_FILE
from keff.sampling.cost import FREE, Price, Usage, price_of
from keff.sampling.integrity import WASTED
from keff.sampling.job import Job
from keff.sampling.orders import Halt, Progress
from keff.sampling.price_table import read_prices
from keff.sampling.store import Run

# Few enough to cost nothing, and more than one, so that a single odd question stops nobody.
PROBE_ITEMS = 3
# Paths and failed attempts after which a paid run is looked at: enough to see what is badly wrong.
FIRST_PATHS = 64

LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(slots=True)
class Spending:
    """Total limit on tokens or dollars of several runs (None: unlimited), with prices.

    A run that goes on has no new budget.
    """

    tokens: int | None
    dollars: float | None
    prices: dict[Path, Price | None]
    held: dict[Path, Usage]

    @classmethod
    def of(cls, *runs: SampleOptions) -> Spending:
        """Return the limits of runs; raises UsageError when a dollar limit has no price to count with."""
        prices = {wishes.run: price_at(wishes) for wishes in runs}
        held = {wishes.run: held_by(wishes.run) for wishes in runs}
        return cls(runs[0].token_budget, runs[0].max_cost, prices, held)

    def reason(self) -> str | None:
        """Return why the limit forbids further drawing, or None."""
        tokens = sum(used.prompt + used.output for used in self.held.values())
        if self.tokens is not None and tokens >= self.tokens:
            return f"the token budget of {self.tokens:,} is spent ({tokens:,} tokens)"
        dollars = sum(used.dollars(self.prices[run] or FREE) for run, used in self.held.items())
        if self.dollars is not None and dollars >= self.dollars:
            return f"the cost limit of ${self.dollars:g} is reached (${dollars:.4f})"
        return None

    def halt(self, run: Path) -> Halt:
        """Return the predicate that stops a run at the total limit."""
        before = held_by(run)

        def reason(progress: Progress) -> str | None:
            self.held[run] = before + usage(progress)
            return self.reason()

        return reason


@dataclass(slots=True)
class FirstPathsCheck:
    """Inspects the first paths of a paid run, and stops it when they are useless.

    ``suspect`` says what looked wrong.
    """

    folder: Path
    temperature: float
    open: bool = False
    suspect: str | None = None

    def halt(self, progress: Progress) -> str | None:
        """Return why the run must stop, or None."""
        if self.open or 0 < progress.done + progress.failed < FIRST_PATHS:
            return self.suspect
        with Run.open(self.folder) as run:
            seen = run.integrity()
        if seen.paths + seen.failed < FIRST_PATHS:
            return None
        self.open = True
        self.suspect = "; ".join(note.message for note in seen.notes(self.temperature, WASTED)) or None
        return self.suspect


def usage(progress: Progress) -> Usage:
    """Return a session's billed tokens and paths."""
    return Usage(progress.prompt_tokens, progress.cached_tokens, progress.tokens, progress.done)


def held_by(folder: Path) -> Usage:
    """Return the billed tokens and paths of a run so far."""
    if not (folder / RUN_FILE).exists():
        return Usage()
    with Run.open(folder) as run:
        held = run.count()
    return Usage(held["prompt_tokens"], held["cached_tokens"], held["tokens"], held["paths"])


def price_at(wishes: SampleOptions) -> Price | None:
    """Return the requested model's price; raises UsageError where a dollar limit needs one."""
    table = read_prices(wishes.prices) if wishes.prices else {}
    local = plugins.declares("engine", wishes.engine, "local")
    price = FREE if local else price_of(wishes.model, table)
    if wishes.max_cost is not None:
        if price is None:
            raise UsageError(
                f"--max-cost needs the price of {wishes.model or 'the model'}: give --prices FILE.toml"
            )
        if price.second:
            raise UsageError("--max-cost counts tokens and paths, not seconds: give --token-budget instead")
    return price


def is_paid(engine: str, base_url: str | None) -> bool:
    """Return whether the engine is a server on another machine."""
    local = plugins.declares("engine", engine, "local")
    return not local and urlsplit(base_url or "").hostname not in LOOPBACK


def sample_as_wished(
    wishes: SampleOptions, spending: Spending | None = None, shown: RunsProgress | None = None
) -> tuple[Job, Progress]:
    """Draw what is still owed, after confirmation where it may cost money.

    ``spending`` has the limits and ``shown`` the paths of runs that share them, and one bar.
    """
    spending = spending or Spending.of(wishes)
    plain = wishes.job()
    if wishes.greedy and wishes.k > plain.order.k:
        note(
            f"{wishes.greedy} gives the same path each time: keff draws {plain.order.k} of {wishes.k} for "
            "each question. For a vote, sample at --temperature 0.7 or so; --keep-going draws them all."
        )
    free = not is_paid(wishes.engine, wishes.base_url)
    gate = FirstPathsCheck(wishes.run, wishes.temperature, open=wishes.keep_going or free)

    spent = spending.halt(wishes.run)

    def halt(progress: Progress) -> str | None:
        return gate.halt(progress) or spent(progress)

    job = replace(plain, order=replace(plain.order, halt=halt))
    confirm(job, wishes, spending)
    spent = spending.halt(wishes.run)  # with what was drawn before it was asked
    drawn = draw(job, shown)
    if gate.suspect:
        raise RunError(
            f"stopped early: {gate.suspect}. All {drawn.kept + drawn.done} paths are kept in {wishes.run}: "
            "look at them, and add --keep-going to continue"
        )
    return job, drawn


def confirm(job: Job, wishes: SampleOptions, spending: Spending) -> None:
    """Draw the first items, forecast the rest, and ask; drawn paths are kept.

    Without a terminal to ask at, ``--yes`` must have been given: raises UsageError. A refusal exits.
    """
    if wishes.yes or not is_paid(wishes.engine, wishes.base_url):
        return
    refuse_unasked(wishes.engine)
    items = job.items()
    begun = time.monotonic()
    probe = draw(replace(job, chosen=items[:PROBE_ITEMS]))
    if probe.done == 0:
        return
    note(_forecast(probe, len(items) * job.order.k, time.monotonic() - begun, spending.prices[wishes.run]))
    ask()


def refuse_unasked(what: str) -> None:
    """Raise UsageError where a paid run cannot be confirmed for want of a terminal."""
    if not sys.stdin.isatty():
        raise UsageError(f"{what} may cost money and there is no terminal to ask at: add --yes")


def ask() -> None:
    """Ask whether to go on; a refusal exits."""
    if not typer.confirm("Continue?", err=True):
        raise typer.Exit(1)


def _forecast(probe: Progress, paths: int, seconds: float, price: Price | None) -> str:
    """Return the remaining paths, and their tokens, dollars and time."""
    scale = max(paths - probe.done, 0) / probe.done
    used = usage(probe)
    rest = Usage(*(int(count * scale) for count in astuple(used)))
    head = ("paths", "prompt tokens", "output tokens", "dollars", "minutes")
    dollars = "unknown (--prices FILE)" if price is None else f"{rest.dollars(price):.2f}"
    minutes = f"{seconds * scale / 60:.1f}"
    line = (f"{paths - probe.done:,}", f"{rest.prompt:,}", f"{rest.output:,}", dollars, minutes)
    return text_table([head, line], f"What is still to draw, from the first {probe.done} paths")
