"""Shared by sample, pilot, demo and study: build the job, draw with a progress bar, stop on signals."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from keff import plugins
from keff.cli import _options as o
from keff.cli import _sample_options as s
from keff.cli._console import console, note
from keff.cli._oracle import Asked, Oracle
from keff.cli._sample_options import parse_pairs
from keff.console import harmless
from keff.engine import Engine
from keff.engines._local import longest
from keff.errors import RunError, UsageError
from keff.narrow import Fields, Object
from keff.policy import Policy
from keff.policy.spec import PolicySpec
from keff.protocol.server import greedy_field
from keff.records import Sampling, frozen
from keff.sampling import orders
from keff.sampling.job import Job, execute, parse_shard, parse_templates
from keff.sampling.selection import choose
from keff.sampling.verifier import rule_of, slots_of, verifier_of
from keff.task import Task

# What a coroutine gives when it is done.
Done = TypeVar("Done")

# Refused questions that are named in a line; all of them are in ``--json``.
NAMED = 5


@frozen
class DrawOptions:
    """Options of sample and pilot, each field one of the command line."""

    task: o.TaskName
    run: s.RunFolder
    engine: s.EngineName = "openai"
    model: s.Model = None
    base_url: s.BaseUrl = None
    engine_option: s.EngineOptions = None
    seed: s.Seed = 0
    temperature: s.Temperature = 0.7
    top_p: s.TopP = 0.95
    max_tokens: s.MaxTokens = None
    templates: s.Templates = "none"
    data: s.Data = None
    answer_space: o.AnswerSpaceName = None
    answer_key: o.AnswerKey = None
    system: s.System = None
    template: s.TemplateFile = None
    scorer: s.Scorer = None
    task_option: s.TaskOptions = None
    verifier: s.VerifierFunction = None
    verifier_url: s.VerifierUrl = None
    unsafe_exec: s.UnsafeExec = False
    concurrency: s.Concurrency = None
    on: s.On = None
    workers: s.Workers = None
    token_budget: s.TokenBudget = None
    max_cost: s.MaxCost = None
    prices: o.Prices = None
    yes: s.Yes = False
    keep_going: s.KeepGoing = False


@frozen
class SampleOptions(DrawOptions):
    """What is drawn of how many questions and paths; each field is an option of sample."""

    n: s.AllOrN = None
    k: s.K = 8
    policy: s.PolicyText = None
    shard: s.Shard = None

    def job(self) -> Job:
        """Return the job with its task and engine."""
        task, options = load_task(self.task, self._task_options())
        sampling = Sampling(self.temperature, self.top_p, self.max_tokens or task.max_tokens, seed=self.seed)
        order = orders.Order(sampling, *self._paths(task), self.concurrency)
        shard = parse_shard(self.shard)
        # Once, and only when somebody asks: an engine that cannot be made is refused before data are read.
        if not shard[0] and self.on is None:
            raise UsageError(f"--shard {self.shard}: write i/m, or add --on ray, which draws all parts")
        items = cache(lambda: choose(task, self.n, self.seed, shard if shard[0] else (1, 1), self.run))
        own = {"model": self.model, "base_url": self.base_url}
        own |= parse_pairs(self.engine_option, "--engine-option")

        def asked() -> Iterator[Asked]:
            return ((task, item, order) for item in items())

        engine = made_engine(self.engine, own, asked, self.on, self.workers)
        verifier = verifier_of(self.verifier, self.verifier_url)
        return Job(task, engine, self.run, order, self.n, shard, options, items(), verifier)

    @property
    def greedy(self) -> str | None:
        """By what every path of a prompt is the same, such as temperature 0; None where they differ."""
        named = {"temperature": self.temperature, "top_p": self.top_p}
        return None if self.keep_going else greedy_field(named)

    def _paths(self, task: Task) -> tuple[int, tuple[int, ...], Policy | None]:
        """Return the paths per question, the templates they take in turn, and the rule that stops them."""
        if self.greedy:
            slots = parse_templates(self.templates, task)
            return min(self.k, len(slots)), slots, None
        rule = rule_of(self.policy) if self.policy else None
        if rule is None or not (slots := slots_of(str(self.policy))):
            return self.k, parse_templates(self.templates, task), rule
        # A rule stops within one template; a fixed number of paths takes them in turn without one.
        if PolicySpec.parse(rule.spec).name != "fixed":
            line = f"{self.policy}: {rule.spec} stops early over several templates, which sample cannot"
            raise UsageError(f"{line}: keff serve --plan {self.policy} does")
        named = ",".join(map(str, slots)) if self.templates == "none" else self.templates
        return rule.cap, parse_templates(named, task), None

    def _task_options(self) -> Object:
        return {
            "data": self.data and str(self.data.resolve()),
            "answer_space": o.reading_of(self.answer_space, self.answer_key),
            "system": self.system,
            "template": self.template and str(self.template.resolve()),
            "scorer": self.scorer,
            "unsafe_exec": self.unsafe_exec or None,
            **parse_pairs(self.task_option, "--task-option"),
        }


def made_engine(
    name: str,
    own: Fields,
    asked: Callable[[], Iterable[Asked]],
    on: str | None,
    workers: int | None,
) -> Engine:
    """Return an engine from its given options, in this process or on a cluster's workers.

    It must take the longest prompt and answer of all that it will be ``asked``, which is worked out only for
    an engine that wants to know.
    """
    given = {option: value for option, value in own.items() if value is not None}
    if "oracle" not in given and plugins.declares("engine", name, "takes_oracle"):
        told = Oracle(asked())
        # Workers of a cluster get it worked out: a task need not be able to go to another process.
        given["oracle"] = told if on is None else dict(told)
    if "n_ctx" not in given and plugins.declares("engine", name, "takes_prompts"):
        given["prompts"] = longest(
            task.messages(item, slot) for task, item, order in asked() for slot in order.slots
        )
        given["max_tokens"] = max(order.sampling.max_tokens for _, _, order in asked())
    if on is not None:
        return on_cluster(on, workers, name, given)
    if workers is not None:
        raise UsageError("--workers needs --on ray")
    return plugins.load("engine", name, **given)


def on_cluster(on: str, workers: int | None, engine: str, options: Object) -> Engine:
    """Return the engine of a Ray cluster's workers; raises PluginError without the extra."""
    cluster = plugins.import_extra("keff.engines._ray", "--on ray")
    cluster.connect(on)
    return cluster.Cluster(engine, options, workers)


def load_task(name: str, options: Object) -> tuple[Task, Object]:
    """Return the task of a benchmark name or of a user's JSONL file."""
    given = {option: value for option, value in options.items() if value is not None}
    if "." in name or "/" in name:
        given["data"] = str(Path(name).resolve())
        name = "jsonl"
    return plugins.load("task", name, **given), {"name": name, **given}


def draw(job: Job, shown: RunsProgress | None = None) -> orders.Progress:
    """Draw what the job owes with a progress bar; Ctrl-C and SIGTERM keep what was received.

    The bar of a run that is one of several counts them all, and goes when the run has its paths.
    """
    return asyncio.run(_draw(job, shown))


def counts(job: Job, drawn: orders.Progress) -> Object:
    """Return the drawn counts as shown by ``--json``."""
    return {
        "run": str(job.folder),
        "items": drawn.items,
        "kept_before": drawn.kept,
        "drawn": drawn.done,
        "failed": drawn.failed,
        "tokens": drawn.tokens,
        "abstained": drawn.abstained,
        "truncated": drawn.truncated,
        "estimated": drawn.estimated,
        "refused": drawn.refused,
        "rated": drawn.rated,
        "verifier_failed": 0 if job.verifier is None else job.verifier.failures.total(),
        "stopped": drawn.stopped,
    }


def report(job: Job, drawn: orders.Progress) -> None:
    """Print the drawn counts on stderr."""
    line = f"{job.folder}: {drawn.done} paths drawn, {drawn.kept} kept from before, {drawn.items} questions"
    if drawn.failed:
        why = f", the last with: {drawn.why}" if drawn.why else ""
        line += f"; {drawn.failed} attempts failed{why}; run the same command to try them again"
    if drawn.refused:
        line += f"; {refusals(drawn.refused)}"
    if drawn.estimated:
        line += f"; tokens of {drawn.estimated} paths are estimates: the server's own counts cannot be right"
    if job.verifier is not None:
        line += f"; {drawn.rated} paths rated"
        line += f"; {told}" if (told := job.verifier.failure_line()) else ""
    if drawn.stopped:
        line += f"; stopped: {drawn.stopped}"
    note(line)


def refusals(refused: Mapping[str, str]) -> str:
    """Return a sentence on refused questions, with the server's reason for the first."""
    named = ", ".join(list(refused)[:NAMED]) + (", ..." if len(refused) > NAMED else "")
    return f"{len(refused)} questions were refused ({named}): {next(iter(refused.values()))}"


def check_whole(job: Job, drawn: orders.Progress) -> None:
    """Raise RunError when paths are missing for no limit, policy or refusal."""
    owed = 0 if drawn.total is None else drawn.total - drawn.kept - drawn.done
    if drawn.stopped is None and not drawn.refused and (owed > 0 or drawn.unfinished):
        what = f"{owed} paths" if owed > 0 else f"paths of {drawn.unfinished} questions"
        raise RunError(f"{what} are still owed in {job.folder}: run the same command to try them again")


async def _draw(job: Job, shown: RunsProgress | None) -> orders.Progress:
    with progress_bar(transient=shown is not None) as bar:
        name = "sampling" if shown is None else f"sampling {job.folder.name}"
        shown = shown or RunsProgress()
        shown.on(bar, name)

        def watch(progress: orders.Progress) -> None:
            shown.tell(job.folder, progress, _notes(progress))

        if job.shard[0]:
            work = execute(job, watch)
        else:
            work = import_module("keff.sampling.nodes").draw_on_nodes(job, watch)
        return await until_signal(work, f" in {job.folder}")


class Stopped(RunError):
    """Raised when the user interrupts the sampling."""


async def until_signal(work: Coroutine[Any, Any, Done], where: str = "") -> Done:
    """Await a coroutine; Ctrl-C and SIGTERM end it with Stopped."""
    drawing, loop = asyncio.ensure_future(work), asyncio.get_running_loop()
    signals = signal.SIGINT, signal.SIGTERM
    for number in signals:
        loop.add_signal_handler(number, drawing.cancel)
    try:
        return await drawing
    except asyncio.CancelledError:
        raise Stopped(
            f"stopped; every path that was received is kept{where}: run the same command to continue"
        ) from None
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def progress_bar(*, transient: bool = False) -> Progress:
    """Return a progress bar on stderr with paths, tokens per second and notes."""
    shown = console(stderr=True)
    # Where nothing is drawn, a bar that goes when it is done would leave an empty line.
    shown.quiet = transient and not shown.is_terminal
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed}{task.fields[of]} paths"),
        TextColumn("{task.fields[rate]}"),
        TextColumn("{task.fields[notes]}", markup=False),
        TimeRemainingColumn(compact=True),
        console=shown,
        transient=transient,
    )


class RunsProgress:
    """Feeds a progress bar with the counts of the runs in progress.

    ``wanted`` paths are those of all runs (None: what the one run says).
    """

    def __init__(self, wanted: int | None = None) -> None:
        self.wanted, self.held = wanted, dict[Path, int]()

    def on(self, bar: Progress, name: str, notes: str = "") -> None:
        """Start a new line of the bar."""
        self.drawn = dict[Path, orders.Progress]()
        line = harmless(name)
        self._bar, self._task = bar, bar.add_task(line, total=self.wanted, of="", rate="", notes=notes)
        self._begun = time.monotonic()

    @property
    def tokens(self) -> int:
        """Tokens drawn since the line began."""
        return sum(progress.tokens for progress in self.drawn.values())

    def tell(self, run: Path, progress: orders.Progress, notes: str) -> None:
        """Update the bar with the counts of one run."""
        self.drawn[run] = progress
        self.held[run] = progress.kept + progress.done
        total = self.wanted or progress.total
        # Clocks of some systems stand still for 15 ms.
        seconds = max(time.monotonic() - self._begun, 1e-9)
        self._bar.update(
            self._task,
            total=total,
            completed=sum(self.held.values()),
            of="" if total is None else f"/{total}",
            rate=f"{self.tokens / seconds:,.0f} tokens/s" if self.tokens else "",
            notes=notes,
        )


def _notes(progress: orders.Progress) -> str:
    share = progress.abstained / max(progress.done, 1)
    notes = f"{share:.0%} without an answer" if progress.done else ""
    if not progress.done and progress.kept != progress.total:
        notes = "starting"
    return f"{notes}, {progress.failed} failed" if progress.failed else notes
