"""A sampling job: task, engine, run folder and number of paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, field, replace
from itertools import chain
from pathlib import Path as File

import numpy as np

from keff.engine import Engine
from keff.errors import UsageError
from keff.files import draft_of
from keff.policies.retry import reads_verdicts
from keff.policy import Policy, calibrated, for_one_model, in_flight_of
from keff.records import Item, Path, Sampling, frozen, stable_hash
from keff.sampling import EMBEDDINGS, RUN_FILE
from keff.sampling.manifest import Config, Manifest
from keff.sampling.orders import OnProgress, Order, Progress
from keff.sampling.sampler import sample
from keff.sampling.selection import Selection, choose, remember
from keff.sampling.store import Run
from keff.sampling.verifier import Verifier, rate_paths
from keff.task import ScoredText, Task
from keff.usercode import VERIFIER, VERIFIER_FLAGS, require_same_code

# Scores that are written at once, so that neither commits nor memory grow with the run.
SCORES = 1000


@frozen
class Job:
    """One sampling job: what is drawn, from which engine, into which run folder.

    ``options`` are the task's options as given, kept in the manifest so that the run can be scored again.
    ``n`` None takes every item of the task. ``sampling.seed`` also chooses the items, of
    which a ``shard`` (i, m) takes every m-th, from the i-th: the m shards of a run hold each item once;
    (0, m) are all of them, each drawn on a node of a cluster.
    ``chosen`` are the items themselves, where somebody has chosen them already. ``verifier`` rates every
    path.
    """

    task: Task
    engine: Engine
    folder: File
    order: Order
    n: int | None = None
    shard: tuple[int, int] = (1, 1)
    options: dict[str, object] = field(default_factory=dict[str, object])
    chosen: Sequence[Item] | None = None
    verifier: Verifier | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", File(self.folder))

    def items(self) -> Selection:
        """Return the job's items in order."""
        if self.chosen is not None:
            return Selection.of(self.chosen)
        return choose(self.task, self.n, self.sampling.seed, self.shard, self.folder)

    @property
    def sampling(self) -> Sampling:
        """The sampling parameters of this job."""
        return self.order.sampling


def parse_templates(text: str, task: Task) -> tuple[int, ...]:
    """Return the slots of ``none``, ``all`` or ``1,3,5``; raises UsageError for unknown slots."""
    last = len(task.templates) - 1
    if text == "none":
        return (0,)
    if text == "all":
        if last < 1:
            raise UsageError(
                f"task {task.name} has one prompt only: use --templates none, or --template FILE"
            )
        return tuple(range(last + 1))
    try:
        slots = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--templates {text!r}: write none, all, or numbers such as 1,3,5") from None
    wrong = [slot for slot in slots if not 0 <= slot <= last]
    if wrong or len(set(slots)) < len(slots):
        raise UsageError(f"--templates {text}: task {task.name} has the templates 0 to {last}, each once")
    return slots


def parse_shard(text: str | None) -> tuple[int, int]:
    """Return (i, m) of ``i/m``, or (0, m) of ``m``; raises UsageError unless 1 <= i <= m."""
    if text is None:
        return 1, 1
    if text.isdigit() and int(text):
        return 0, int(text)
    first, slash, second = text.partition("/")
    if slash and first.isdigit() and second.isdigit() and 1 <= int(first) <= int(second):
        return int(first), int(second)
    raise UsageError(f"--shard {text!r}: write i/m, such as 2/4 for the second of four")


def configuration(job: Job, first: Item) -> Config:
    """Return the configuration that identifies this job's measurements (the engine must be started)."""
    task = job.task
    return Config(
        engine=job.engine.identity(),
        task={"name": task.name, "version": task.version, "space": first.space},
        sampling=asdict(job.sampling),
        templates=job.order.slots,
        prompt=prompt_of(job, first),
    )


def prompt_of(job: Job, first: Item) -> str:
    """Return a hash of the first item's prompt under all slots."""
    return stable_hash([[dict(m) for m in job.task.messages(first, slot)] for slot in job.order.slots])


def needs_verifier(policy: Policy, verifier: Verifier | None) -> None:
    """Raise UsageError for a policy that a checker ends, without one."""
    if reads_verdicts(policy) and verifier is None:
        raise UsageError(f"{policy.spec} tries again until a checker passes: name {VERIFIER_FLAGS}")


def _check(job: Job) -> None:
    order = job.order
    if order.policy is not None and reads_verdicts(order.policy):
        needs_verifier(order.policy, job.verifier)
        if in_flight_of(order.policy) is not None:
            raise UsageError(f"{order.policy.spec}: a run draws one try after the other: leave in_flight out")
    if order.policy is not None:
        for_one_model(order.policy, "a run")
        if (reader := calibrated(order.policy)) is not None:
            reader.held(order.policy.spec)
    if order.policy is not None and len(order.slots) > 1:
        raise UsageError("a stopping policy needs exchangeable paths: use --templates none or one template")
    if len(order.slots) > order.k:
        raise UsageError(
            f"{len(order.slots)} templates need at least --k {len(order.slots)} paths per question"
        )


def score(run: Run, task: Task, *, everything: bool = False) -> int:
    """Extract and score stored paths again with the task's version; returns how many.

    Without ``everything`` only paths that have no score under the current version. Nothing is drawn.
    """
    stale = set[str]() if everything else run.stale(task.version)
    total, read = 0, list[tuple[Path, ScoredText]]()
    for item in run.items() if everything or stale else ():
        if not everything and item.id not in stale:
            continue
        kept = [path for path in run.kept(item.id) if everything or path.version != task.version]
        read += [(path.path, task.judge(item, path.completion)) for path in kept]
        total += len(kept)
        if len(read) >= SCORES:
            run.add_scores(read, task.version)
            read.clear()
    run.add_scores(read, task.version)
    return total


def save_embeddings(run: Run) -> None:
    """Store a run's hidden states, if any, beside it as ``embeddings.npy`` (float16, [items, K, D]).

    One item is in memory at a time.
    """
    several = run.embeddings()
    first = next(several, None)
    if first is None:
        return
    with draft_of(run.folder / EMBEDDINGS) as draft:
        states = np.lib.format.open_memmap(draft, "w+", np.float16, (len(run.embedded()), *first[1].shape))
        for place, (_, vectors) in enumerate(chain([first], several)):
            states[place] = vectors
        states.flush()


async def execute(job: Job, watch: OnProgress | None = None) -> Progress:
    """Draw all paths the job still owes, and score every stored path.

    Raises UsageError for orders that make no sense, TaskError for data, EngineError when the engine cannot
    work, StoreError when the folder holds something else.
    """
    _check(job)
    items = job.items()
    if not items:
        raise UsageError(
            f"shard {job.shard[0]}/{job.shard[1]} of task {job.task.name} has no items: use fewer shards"
        )
    try:
        await job.engine.start()
        return await draw(replace(job, chosen=items), watch)
    finally:
        await job.engine.close()


def run_of(job: Job, items: Sequence[Item], policy: Policy | None) -> Run:
    """Return the run that a job on a started engine draws its items into, under a policy.

    Raises UsageError for another verifier than before, StoreError when the folder holds something else.
    """
    stamp = None if job.verifier is None else job.verifier.stamp
    if (job.folder / RUN_FILE).exists():
        require_same_code(str(job.folder), VERIFIER, Manifest.read(job.folder).code.get(VERIFIER), stamp)
    config = configuration(job, items[0])
    return Run.write(
        job.folder,
        config,
        n=len(items),
        k=job.order.k,
        policy=policy,
        options=job.options,
        verifier=stamp,
    )


async def draw(job: Job, watch: OnProgress | None = None) -> Progress:
    """Draw all paths the job still owes on a started engine, which stays open.

    For many jobs on one engine; raises as ``execute``.
    """
    _check(job)
    items = job.items()
    with run_of(job, items, job.order.policy) as run:
        score(run, job.task)
        try:
            progress = await sample(run, job.task, job.engine, items, job.order, watch, job.verifier)
        finally:
            run.note_parameters(run.manifest.parameters | getattr(job.engine, "parameters", {}))
        if job.verifier is not None:
            progress.rated += await rate_paths(run, job.task, job.verifier)
        remember(run, items)
        save_embeddings(run)
        return progress
