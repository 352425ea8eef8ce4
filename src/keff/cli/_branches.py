"""Several branches under one budget, in a pilot or under a policy, each in its own run folder."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from keff import files
from keff.analysis.mix.drop import LOOKS, dominated_branches
from keff.analysis.mix.prices import path_costs
from keff.cli._console import note
from keff.cli._preflight import Spending, is_paid, sample_as_wished
from keff.cli._sampling import RunsProgress, SampleOptions, report
from keff.errors import UsageError
from keff.files import toml_of
from keff.policy import Policy
from keff.policy.spec import NAME
from keff.reading.join import Aligned, align
from keff.reading.open import Opening, open_record
from keff.sampling.branches import BranchSampler, sample_branches
from keff.sampling.cost import Price
from keff.sampling.job import Job, needs_verifier, run_of
from keff.sampling.orders import Progress
from keff.sampling.verifier import rule_of

# The first round draws so many paths of a question: enough to see what a path costs and to compare branches.
FIRST_PATHS = 4

# In the run folder of a branch that a pilot dropped.
DROPPED = "dropped.json"

# A branch whose path costs this many times the cheapest one's gets half the paths, at least four.
DEAR = 4.0


class _BranchFile(BaseModel):
    """What a branch may set for itself: its name, and options of the command line under the same names."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    name: str
    engine: str = ""
    model: str | None = None
    base_url: str | None = None
    temperature: float = Field(0, ge=0)
    top_p: float = Field(0, ge=0, le=1)
    max_tokens: int | None = Field(None, ge=1)
    templates: str = ""
    system: str | None = None
    k: int = Field(0, ge=1)
    engine_option: dict[str, object] = Field(default_factory=dict[str, object])


def read_branches(files: Sequence[Path], wishes: SampleOptions) -> dict[str, SampleOptions]:
    """Return each branch's options: the command's, overridden by its TOML file, with its own run.

    The name of a branch is ``name`` in its file, else the name of the file. Raises UsageError for a file
    that cannot be read, an unknown field, and a duplicate name, or one that does not fit a policy string.
    """
    if len(files) < 2:
        raise UsageError("one branch only: give --branch twice or more, or leave it out")
    branches: dict[str, SampleOptions] = {}
    for file in files:
        try:
            given = _BranchFile.model_validate({"name": file.stem} | toml_of(file))
        except ValidationError as error:
            first = error.errors()[0]
            where, known = ".".join(map(str, first["loc"])), ", ".join(_BranchFile.model_fields)
            raise UsageError(f"{file}: {where}: {first['msg']}; a branch has {known}") from None
        if NAME.fullmatch(given.name) is None:
            line = f"the name {given.name!r} may hold letters, digits, '_', '.' and '-' only"
            raise UsageError(f"{file}: {line}")
        if given.name in branches:
            raise UsageError(f"{file}: another branch is called {given.name!r}; set name in one of the files")
        extra = [f"{key}={value}" for key, value in given.engine_option.items()]
        own = given.model_dump(exclude_unset=True, exclude={"name"})
        own["engine_option"] = [*(wishes.engine_option or []), *extra] or None
        branches[given.name] = replace(wishes, run=wishes.run / given.name, **own)
    # In the order in which ``keff mix`` finds their folders: it finds the same then.
    return dict(sorted(branches.items()))


def draw_branches(
    branches: Mapping[str, SampleOptions],
    prices: Mapping[str, Price] | None = None,
    *,
    keep_all: bool = False,
) -> None:
    """Draw the pilot of every branch, in rounds, within the one total of tokens or dollars.

    The first round takes at most four paths per question and shows what a path of each branch costs; dear
    branches then get half the paths of the others. After 12, 25 and 50 questions branches that are not worth
    their cost beside a cheaper one are drawn no further, unless ``keep_all``; their run folders say so, and a
    resumed pilot leaves them as they are.
    """
    first, total = next(iter(branches.values())), Spending.of(*branches.values())
    wanted = dict(branches)
    sizes, shown, drawn = _rounds(first.n), RunsProgress(), dict[str, tuple[Job, Progress]]()
    for number, size in enumerate(sizes):
        if number == 1 and not total.reason():
            wanted = _fewer_of_the_dear(branches, prices)
        going = {name: own for name, own in wanted.items() if keep_all or dropped_by(own.run) is None}
        if first.n is not None:
            dropped = (shown.held.get(own.run, 0) for name, own in wanted.items() if name not in going)
            shown.wanted = sum(first.n * own.k for own in going.values()) + sum(dropped)
        for name, wishes in going.items():
            if total.reason():
                break
            k = min(wishes.k, FIRST_PATHS) if number == 0 else wishes.k
            own = replace(wishes, n=size, k=k, yes=wishes.yes or number > 0)
            job, now = sample_as_wished(own, total, shown)
            drawn[name] = job, now.after(drawn[name][1]) if name in drawn else now
        if keep_all or size not in LOOKS or size == sizes[-1] or total.reason() or len(going) < 2:
            continue
        _drop_beaten(going, size, prices)
    for job, progress in drawn.values():
        report(job, progress)
    if why := total.reason():
        note(f"{why} by all branches together, earlier runs of this pilot included")
    for wishes in branches.values() if keep_all else ():
        (wishes.run / DROPPED).unlink(missing_ok=True)


def _rounds(n: int | None) -> list[int | None]:
    """Return the rounds' numbers of questions: those of the looks, then a quarter more each time.

    A budget that ends within a round leaves the branches that far apart at most.
    """
    if n is None:
        return [None]
    sizes: list[int] = [*LOOKS]
    while sizes[-1] < n:
        sizes.append(sizes[-1] * 5 // 4)
    return [*(size for size in sizes if size < n), n]


def _drop_beaten(going: Mapping[str, SampleOptions], size: int, prices: Mapping[str, Price] | None) -> None:
    """Mark the run folders of branches dropped after ``size`` questions."""
    group = _recorded_branches(going)
    if group.n > size:
        return  # a resumed pilot is past this look
    for name, by in dominated_branches(group, path_costs(group, prices).paths).items():
        files.write_text(going[name].run / DROPPED, json.dumps({"by": by, "questions": size}) + "\n")
        note(
            f"keff drops {name} after {size} questions: {by} is cheaper, and the accuracy that {name} may "
            "add is not worth its paths (--keep-all keeps it)"
        )


def dropped_by(run: Path) -> str | None:
    """Return the branch that made a pilot drop this run's branch, or None."""
    mark = run / DROPPED
    if not mark.is_file():
        return None
    try:
        return str(json.loads(mark.read_text("utf-8"))["by"])
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{mark}: not what a pilot writes; remove it to count the branch in full") from None


def _recorded_branches(branches: Mapping[str, SampleOptions]) -> Aligned:
    records = [open_record(wishes.run, Opening(partial=True)) for wishes in branches.values()]
    return align(records, list(branches))


def _fewer_of_the_dear(
    branches: Mapping[str, SampleOptions], prices: Mapping[str, Price] | None
) -> dict[str, SampleOptions]:
    """Return the branches with half the paths for dear ones, by what the paths drawn so far cost."""
    cost = [float(paid.mean()) for paid in path_costs(_recorded_branches(branches), prices).paths]
    cheapest = min((value for value in cost if value > 0), default=math.inf)
    return {
        name: replace(wishes, k=max(wishes.k // 2, min(wishes.k, FIRST_PATHS)))
        if paid >= DEAR * cheapest
        else wishes
        for (name, wishes), paid in zip(branches.items(), cost, strict=True)
    }


def sample_under_policy(branches: Mapping[str, SampleOptions]) -> dict[str, tuple[Job, Progress]]:
    """Sample under a policy over branches within one total budget; returns their counts.

    Raises UsageError where a paid run was not agreed to with ``--yes``.
    """
    wishes = next(iter(branches.values()))
    if any(is_paid(own.engine, own.base_url) for own in branches.values()) and not wishes.yes:
        raise UsageError("branches may cost money: give a --token-budget or --max-cost, and add --yes")
    policy = rule_of(wishes.policy or "")
    total = Spending.of(*branches.values())
    jobs: dict[str, Job] = {}
    for name, own in branches.items():
        job = replace(own, policy=None).job()
        needs_verifier(policy, job.verifier)
        jobs[name] = replace(job, order=replace(job.order, halt=total.halt(own.run)))
    drawn = asyncio.run(_sample(jobs, policy))
    return {name: (job, drawn[name]) for name, job in jobs.items()}


async def _sample(jobs: Mapping[str, Job], policy: Policy) -> dict[str, Progress]:
    items = next(iter(jobs.values())).items()
    async with AsyncExitStack() as stack:
        arms: dict[str, BranchSampler] = {}
        for name, job in jobs.items():
            stack.push_async_callback(job.engine.close)
            await job.engine.start()
            run = stack.enter_context(run_of(job, items, policy))
            arms[name] = BranchSampler(run, job.task, job.engine, job.order, job.verifier)
        return await sample_branches(arms, items, policy)
