"""What sample, pilot and demo share: make the job, draw with a progress bar, stop cleanly on a signal.

And what the fake engine says: for each prompt an answer that its task scores right, and wrong ones.
"""

from __future__ import annotations

import ast
import asyncio
import signal
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from keff import plugins
from keff.cli import _options as o
from keff.cli import _sample_options as s
from keff.cli._console import console, note, print_json
from keff.cli._sample_options import parse_pairs
from keff.engine import Engine
from keff.engines._local import longest
from keff.engines.fake import wrong_answers
from keff.errors import RunError, UsageError
from keff.narrow import is_array
from keff.records import Completion, Item, Sampling, stable_hash
from keff.sampling import orders
from keff.sampling.job import Job, execute, parse_shard, parse_templates
from keff.sampling.selection import choose
from keff.sampling.verifier import rule_of, verifier_of
from keff.task import Task

# What a coroutine gives when it is done.
Done = TypeVar("Done")

# Wrong answers of a prompt, where its task has so many.
WRONG = 4

# Ways to state an answer; the first that the task reads is used.
FORMS = ("The final answer is {}", "Final answer: {}", r"The final answer is $\boxed{{{}}}$", "#### {}")

# Answers that share no word with any gold answer: near misses would pass a token F1 of one half.
STRANGERS = ("Quillby", "Ostrava", "Venlo", "Marbeck", "Tolleson", "9001", "9002", "9003", "9004")


# ``{"right": text, "wrong": [text, ...]}``: how right and wrong paths of a prompt end.
Ends = dict[str, str | list[str]]


# What an engine will be asked: an item of a task under the slots of an order.
Asked = tuple[Task, Item, orders.Order]


class Oracle(Mapping[str, Ends]):
    """``{"right": text, "wrong": [text, ...]}`` by the hash of the messages, for items with gold.

    Nothing is worked out before a prompt is asked: a complete run asks none.
    """

    def __init__(self, asked: Iterable[Asked]) -> None:
        self._asked = list(asked)
        self._ends = lru_cache(maxsize=1024)(self._worked_out)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {
            stable_hash(list(task.messages(item, slot))): place
            for place, (task, item, order) in enumerate(self._asked)
            if item.gold is not None
            for slot in order.slots
        }

    def _worked_out(self, place: int) -> Ends:
        task, item, _ = self._asked[place]
        return _program(item) if item.space == "code" else _texts(task, item)

    def __getitem__(self, prompt: str) -> Ends:
        """Return how paths of a prompt end; raises KeyError for one of no item with gold."""
        return self._ends(self._places[prompt])

    def __iter__(self) -> Iterator[str]:
        """Iterate over the hashes of the messages."""
        return iter(self._places)

    def __len__(self) -> int:
        """Return how many prompts are known."""
        return len(self._places)

    def __reduce__(self) -> tuple[type[dict[str, Ends]], tuple[dict[str, Ends]]]:
        """Go to another process worked out: a task need not be able to."""
        return dict, (dict(self),)


def _texts(task: Task, item: Item) -> Ends:
    """Return texts that the task itself scores as right and as wrong: nobody else knows what it accepts."""
    golds = item.gold if is_array(item.gold) else [item.gold]

    @lru_cache(maxsize=256)
    def score(text: str) -> tuple[str | None, int | None]:
        judged = task.judge(item, Completion(text))
        return judged.key, judged.correct

    def stated(answers: Iterable[str], right: int) -> Iterator[str]:
        for answer in answers:
            texts = (form.format(answer) for form in FORMS)
            fitting = next((text for text in texts if score(text)[0] and score(text)[1] == right), None)
            if fitting is not None:
                yield fitting

    right = next(stated(map(str, golds), 1), FORMS[0].format(golds[0]))
    wrong: dict[str | None, str] = {}
    for text in stated(_candidates(item, str(golds[0])), 0):
        wrong.setdefault(score(text)[0], text)
        if len(wrong) == WRONG:
            break
    return {"right": right, "wrong": list(wrong.values()) or ["I do not know."]}


def _candidates(item: Item, gold: str) -> Iterator[str]:
    yield from (str(label) for label in item.meta.get("labels", ()))
    yield from wrong_answers(gold, WRONG)
    yield from STRANGERS
    yield from map(repr, STRANGERS)


def _program(item: Item) -> Ends:
    """Return the data's own program, and programs whose functions return something else."""
    solution = str(item.meta.get("solution", ""))
    try:
        names = [node.name for node in ast.parse(solution).body if isinstance(node, ast.FunctionDef)]
    except SyntaxError:
        names = []
    wrong = (
        "\n".join(f"def {name}(*args, **kwargs):\n    return 'wrong {rank}'\n" for name in names)
        for rank in range(WRONG)
    )
    return {"right": f"```python\n{solution}\n```", "wrong": [f"```python\n{text}\n```" for text in wrong]}


# Refused questions that are named in a line; all of them are in ``--json``.
NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the options of sample and pilot say, as given: each field is one option of the command line."""

    task: o.TaskName
    run: s.RunFolder
    engine: s.EngineName = "openai"
    model: s.Model = None
    base_url: s.BaseUrl = None
    engine_option: s.EngineOptions = None
    n: s.AllOrN = None
    k: s.K = 8
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
    policy: s.PolicyText = None
    concurrency: s.Concurrency = None
    on: s.On = None
    workers: s.Workers = None
    shard: s.Shard = None
    token_budget: s.TokenBudget = None
    max_cost: s.MaxCost = None
    prices: s.Prices = None
    yes: s.Yes = False
    keep_going: s.KeepGoing = False

    def job(self) -> Job:
        """Make the task, the engine and the job."""
        task, options = load_task(self.task, self._task_options())
        sampling = Sampling(self.temperature, self.top_p, self.max_tokens or task.max_tokens, seed=self.seed)
        order = orders.Order(
            sampling,
            self.k,
            parse_templates(self.templates, task),
            rule_of(self.policy) if self.policy else None,
            self.concurrency,
        )
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

    def _task_options(self) -> dict[str, object]:
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
    own: Mapping[str, object],
    asked: Callable[[], Iterable[Asked]],
    on: str | None,
    workers: int | None,
) -> Engine:
    """Make an engine by its options that are not None: in this process, or on the workers of a cluster.

    It must take the longest prompt and answer of all that it will be ``asked``, which is worked out only for
    an engine that wants to know.
    """
    given = {option: value for option, value in own.items() if value is not None}
    takes = plugins.options("engine", name)
    if "oracle" in takes and "oracle" not in given:
        told = Oracle(asked())
        # Workers of a cluster get a copy.
        given["oracle"] = told if on is None else dict(told)
    if "prompts" in takes and "n_ctx" not in given:
        given["prompts"] = longest(
            task.messages(item, slot) for task, item, order in asked() for slot in order.slots
        )
        given["max_tokens"] = max(order.sampling.max_tokens for _, _, order in asked())
    if on is not None:
        return on_cluster(on, workers, name, given)
    if workers is not None:
        raise UsageError("--workers goes with --on ray")
    return plugins.load("engine", name, **given)


def on_cluster(on: str, workers: int | None, engine: str, options: dict[str, object]) -> Engine:
    """Join a Ray cluster and make the engine of its workers; raises PluginError without the extra."""
    cluster = plugins.import_extra("keff.engines._ray", "--on ray")
    cluster.connect(on)
    return cluster.Cluster(engine, options, workers)


def load_task(name: str, options: dict[str, object]) -> tuple[Task, dict[str, object]]:
    """Make a task from a benchmark name or from the path of a user's own JSONL file."""
    given = {option: value for option, value in options.items() if value is not None}
    if name.endswith(".jsonl") or "/" in name:
        given["data"] = str(Path(name).resolve())
        name = "jsonl"
    return plugins.load("task", name, **given), {"name": name, **given}


@dataclass(slots=True)
class Together:
    """What one bar shows of several runs: ``wanted`` paths of all (None: unknown), those each ``held``."""

    wanted: int | None = None
    held: dict[Path, int] = field(default_factory=dict[Path, int])


def draw(job: Job, together: Together | None = None) -> orders.Progress:
    """Draw what the job owes, with a bar on stderr; Ctrl-C and SIGTERM keep what was received.

    The bar of a run that is one of several counts them all, and goes when the run has its paths.
    """
    return asyncio.run(_draw(job, together))


def report(job: Job, drawn: orders.Progress, *, json: bool) -> None:
    """Say what was drawn: one line on stderr, or one JSON object on stdout."""
    if json:
        print_json(
            {
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
        )
        return
    line = f"{job.folder}: {drawn.done} paths drawn, {drawn.kept} kept from before, {drawn.items} questions"
    if drawn.failed:
        line += f"; {drawn.failed} attempts failed: run the same command to try them again"
    if drawn.refused:
        line += f"; {refusals(drawn.refused)}"
    if drawn.estimated:
        line += f"; tokens of {drawn.estimated} paths are estimates: the server's own counts cannot be right"
    if job.verifier is not None:
        line += f"; {drawn.rated} paths rated"
        line += f"; {told}" if (told := job.verifier.told()) else ""
    if drawn.stopped:
        line += f"; stopped: {drawn.stopped}"
    note(line)


def refusals(refused: Mapping[str, str]) -> str:
    """Return which questions the server refused, and what it said of the first."""
    named = ", ".join(list(refused)[:NAMED]) + (", ..." if len(refused) > NAMED else "")
    return f"{len(refused)} questions were refused ({named}): {next(iter(refused.values()))}"


def check_whole(job: Job, drawn: orders.Progress) -> None:
    """Raise RunError when paths are owed that no limit or policy left out, and that nobody refused."""
    owed = 0 if drawn.total is None else drawn.total - drawn.kept - drawn.done
    if drawn.stopped is None and not drawn.refused and (owed > 0 or drawn.unfinished):
        what = f"{owed} paths" if owed > 0 else f"paths of {drawn.unfinished} questions"
        raise RunError(f"{what} are still owed in {job.folder}: run the same command to try them again")


async def _draw(job: Job, together: Together | None) -> orders.Progress:
    with _bar(transient=together is not None) as bar:
        watch = _watcher(bar, job.folder, together or Together())
        if job.shard[0]:
            work = execute(job, watch)
        else:
            work = import_module("keff.sampling.nodes").draw_on_nodes(job, watch)
        return await until_signal(work, f" in {job.folder}")


class Stopped(RunError):
    """The user ended the sampling."""


async def until_signal(work: Coroutine[Any, Any, Done], where: str = "") -> Done:
    """Await what draws; Ctrl-C and SIGTERM end it with Stopped, which says that what was received is kept."""
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


def _bar(*, transient: bool) -> Progress:
    shown = console(stderr=True)
    # Where nothing is drawn, a bar that goes when it is done would leave an empty line.
    shown.quiet = transient and not shown.is_terminal
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}{task.fields[of]} paths"),
        TextColumn("{task.fields[rate]}"),
        TextColumn("{task.fields[notes]}"),
        TimeRemainingColumn(compact=True),
        console=shown,
        transient=transient,
    )


def _watcher(bar: Progress, run: Path, together: Together) -> orders.Watch:
    task = bar.add_task(
        "sampling" if together.wanted is None else f"sampling {run.name}",
        total=None,
        of="",
        rate="",
        notes="",
    )
    begun = time.monotonic()

    def watch(progress: orders.Progress) -> None:
        # Clocks of some systems stand still for 15 ms.
        seconds = max(time.monotonic() - begun, 1e-9)
        held = progress.kept + progress.done
        share = progress.abstained / max(progress.done, 1)
        notes = f"{share:.0%} without an answer" if progress.done else ""
        if not progress.done and held != progress.total:
            notes = "starting"
        if progress.failed:
            notes += f", {progress.failed} failed"
        rate = f"{progress.tokens / seconds:,.0f} tokens/s" if progress.done else ""
        together.held[run] = held
        total = together.wanted or progress.total
        of = "" if total is None else f"/{total}"
        completed = sum(together.held.values())
        bar.update(task, total=total, completed=completed, of=of, rate=rate, notes=notes)

    return watch
