# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false, reportUnknownParameterType=false
"""Sampling on the nodes of a Ray cluster (extra ``ray``): one store per node, merged at the end."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import ray
from ray.exceptions import RayError

from keff.engines._ray import Cluster, failure
from keff.plugins import load
from keff.policy import cancel_running
from keff.records import frozen, stable_hash
from keff.sampling import RUN_FILE
from keff.sampling.job import Job, execute, prompt_of
from keff.sampling.manifest import Config
from keff.sampling.orders import OnProgress, Progress, paths_per_slot
from keff.sampling.sampler import TOGETHER
from keff.sampling.selection import Selection, remember
from keff.sampling.store import Run, Tables


@frozen
class DrawnPart:
    """One node's part of a run: its store's rows, and their configuration."""

    config: Config
    progress: Progress
    tables: Tables


async def draw_on_nodes(job: Job, watch: OnProgress) -> Progress:
    """Draw a job in ``job.shard[1]`` parts, each with an engine and store on its node.

    ``job.engine`` is the ``Cluster``. Ray chooses the nodes, and begins the part of a lost node anew on
    another. A part that ends is merged, by item, slot, path and attempt: the run is the one that a single
    process draws, whatever was drawn twice. Limits are looked at when a part ends. Raises what a part raises.
    """
    cluster, parts = cast("Cluster", job.engine), job.shard[1]
    items, k = job.items(), job.order.k
    whole = _complete_ids(job, items)
    total = Progress(None if job.order.policy else k * len(items), len(whole), k * len(whole))
    place = {"num_cpus": 1, "num_gpus": cluster.gpus_each(), "scheduling_strategy": "SPREAD"}
    draw = ray.remote(draw_part).options(max_retries=-1, **place)
    plain = replace(job, engine=None, order=replace(job.order, halt=None))

    async def part(own: Selection) -> None:
        nonlocal total
        task = draw.remote(replace(plain, chosen=own), cluster.name, cluster.options)
        try:
            drawn: DrawnPart = await task
        except asyncio.CancelledError:
            ray.cancel(task)
            raise
        except RayError as error:
            raise failure(error) from None
        merge(job, items, drawn)
        new = drawn.progress
        kept, seen = total.kept + new.kept, total.items + new.items
        total = replace(new.after(total), total=total.total, kept=kept, items=seen)
        total.stopped = job.order.halt(total) if job.order.halt else None
        watch(total)

    owed = Selection.of(item for item in items if item.id not in whole)
    running = [asyncio.ensure_future(part(own)) for number in range(parts) if (own := owed[number::parts])]
    try:
        for ended in asyncio.as_completed(running):
            await ended
            if total.stopped:
                break
    finally:
        await cancel_running(running)
    return total


def _complete_ids(job: Job, items: Selection) -> set[str]:
    """Return the ids of complete questions; none under a policy, whose number of paths is unknown."""
    if job.order.policy is not None or not (job.folder / RUN_FILE).exists():
        return set()
    shares = paths_per_slot(job.order.k, job.order.slots)
    with Run.open(job.folder) as run:
        return {item for rows in items.parts(TOGETHER) for item in run.complete_ids(rows, shares)}


def merge(job: Job, items: Selection, drawn: DrawnPart) -> None:
    """Add a part's rows to the job's run, creating it if needed."""
    # A part has a first item of its own.
    config = drawn.config.model_copy(update={"prompt": prompt_of(job, items[0])})
    order, options = job.order, job.options
    with Run.write(job.folder, config, n=len(items), k=order.k, policy=order.policy, options=options) as run:
        run.put_items(items)
        run.insert(drawn.tables)
        remember(run, items)


def draw_part(job: Job, name: str, options: Mapping[str, object]) -> DrawnPart:
    """Draw one part of a job on this node, resuming the store of a killed task."""
    node, ids = ray.get_runtime_context().get_node_id(), [item.id for item in job.items()]
    folder = Path(tempfile.gettempdir()) / f"keff-{stable_hash(node, str(job.folder), ids)}"
    engine = load("engine", name, **options)
    progress = asyncio.run(execute(replace(job, engine=engine, folder=folder)))
    with Run.open(folder) as run:
        drawn = DrawnPart(run.manifest.config, progress, run.tables())
    shutil.rmtree(folder, ignore_errors=True)
    return drawn
