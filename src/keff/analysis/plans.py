"""Plans for a gateway, from an analysis or from ``keff combine``.

Template slots are branches of one model, weighted or pruned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keff import plugins
from keff.analysis.results.combination import Combination
from keff.analysis.results.estimates import Analysis
from keff.answers import keeping
from keff.errors import KeffError, UsageError
from keff.log import LogInfo
from keff.narrow import Object, fields
from keff.plan import BranchPlan, Plan, Profile
from keff.policies.mix import Mix, Share
from keff.reading.open import Record
from keff.records import Note
from keff.sampling.manifest import Config
from keff.stats.models.mixture import vote_counts
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.calibrate import calibrate
from keff.task import Task

# The drift alarm thins these to the paths that every request draws.
PROFILE_PATHS = 8


def profile(votes: Votes) -> Profile | None:
    """Return the label-free profile of the first (at most 8) paths of each item, for the drift alarm.

    None when there are fewer than two, or when paths differ in their prompt template: a gateway draws all
    of its paths alike.
    """
    m = min(votes.k, PROFILE_PATHS)
    if votes.answers is None or votes.slots is not None or m < 2:
        return None
    counts = vote_counts(votes.paths(range(m)))[0]
    held = tuple(tuple(sorted((v for v in row if v), reverse=True)) for row in counts.tolist())
    return Profile(paths=m, votes=held)


def task_of(info: LogInfo) -> Object:
    """Return a plan's task section; user code is recorded there and never run from it."""
    task = {**fields((info.config or {})["task"]), "options": dict(info.options)}
    return (
        task | {"code": {kind: stamp.to_dict() for kind, stamp in info.code.items()}} if info.code else task
    )


def _provenance(record: Record) -> dict[str, Any]:
    """Return the plan's provenance: answer space, task, sampling configuration and fingerprint."""
    how, config = record.ballot.reading, record.info.config
    # Answers that are compared exactly are read from no text.
    space = keeping(how.space, how.kept) if how.kept and how.space != "exact" else how.space
    if not config:
        return {"space": space}
    named = Config.model_validate(config).fingerprint
    return {
        "space": space,
        "task": task_of(record.info),
        "config": dict(config),
        "fingerprint": named,
        "parameters": dict(record.info.parameters),
    }


def make_plan(record: Record, analysis: Analysis) -> Plan:
    """Return the plan of the recommended policy, with the estimates behind it."""
    votes = record.ballot.votes
    rated: Mapping[str, FloatArray] = {} if votes.correct is None else votes.rated
    return Plan(
        policy=analysis.policy,
        **_provenance(record),
        estimates=analysis.to_dict(),
        profile=profile(votes),
        branches=_templates_in_order(record),
        calibrations={name: calibrate(votes, given) for name, given in rated.items()},
    )


def _templates_in_order(record: Record) -> tuple[BranchPlan, ...]:
    """Return the record's prompt templates, in the order in which paths take them; none for one prompt."""
    slots = record.ballot.votes.slots
    order = [] if slots is None else list(dict.fromkeys(slots.tolist()))
    if len(order) < 2:
        return ()
    texts = _templates(record)[0]
    return tuple(BranchPlan(name=f"slot-{slot}", template=texts.get(slot)) for slot in order)


def chosen_weights(combination: Combination, slots: Sequence[int]) -> tuple[tuple[float, ...], str]:
    """Return the column weights [K] to deploy (0: pruned), and why; ``slots`` [K] are the columns' slots.

    The weights or the pruning that gain most by plurality, cross-fitted; equal weights of all slots where
    nothing gains more than one standard error.
    """
    weighted = [
        row
        for row in combination.weights
        if row.rule == "plurality" and row.weights is not None and row.gain > row.se
    ]
    pruned = [row for row in combination.pruning if row.rule == "plurality" and row.adopted]
    best = max(weighted, key=lambda row: row.gain, default=None)
    fewer = pruned[0] if pruned else None
    if fewer is not None and (best is None or fewer.gain >= best.gain):
        kept = set(fewer.candidate)
        weights = tuple(float(slot in kept) for slot in slots)
        return weights, f"{len(kept)} of {len(set(slots))} slots: {fewer.gain:+.1%} ± {fewer.se:.1%}"
    if best is not None and best.weights is not None:
        return best.weights, f"weights by {best.scheme}: {best.gain:+.1%} ± {best.se:.1%}"
    return (1.0,) * combination.k, "equal weights: nothing gains more than its standard error"


def slot_plan(record: Record, combination: Combination) -> tuple[Plan, tuple[Note, ...]]:
    """Return the plan that serves template slots as branches, and a note on what it lacks.

    Raises UsageError for a record of one prompt, and where fewer than two slots keep a weight.
    """
    slots = record.ballot.votes.slots
    if slots is None:
        raise UsageError(
            f"{record.path} has one prompt for all paths: a plan of slots needs several templates"
        )
    columns: list[int] = slots.tolist()
    weights, because = chosen_weights(combination, columns)
    shares = _shares(columns, weights)
    if len(shares) < 2:
        raise UsageError(f"one slot is enough ({because}): use its template, and keff analyze for a plan")
    texts, notes = _templates(record)
    names = {share.branch: int(share.branch.removeprefix("slot-")) for share in shares}
    branches = tuple(BranchPlan(name=name, template=texts.get(slot)) for name, slot in names.items())
    plan = Plan(
        policy=Mix(shares).spec,
        **_provenance(record),
        branches=branches,
        estimates={"because": because},
    )
    return plan, notes


def _shares(slots: Sequence[int], weights: Sequence[float]) -> tuple[Share, ...]:
    """Return for each slot with weight its number of paths and total weight, to two digits."""
    column, weight = np.asarray(slots), np.asarray(weights, np.float64)
    sums = {slot: float(weight[column == slot].sum()) for slot in sorted(set(slots))}
    top = max(sums.values())
    return tuple(
        Share(f"slot-{slot}", int(np.sum((column == slot) & (weight > 0))), float(f"{total / top:.2g}"))
        for slot, total in sums.items()
        # Less would be written as 0 beside the largest, and costs paths all the same.
        if total / top >= 0.005
    )


def _templates(record: Record) -> tuple[Mapping[int, str], tuple[Note, ...]]:
    """Return the template of each slot, where the record's task can be opened."""
    info = record.info
    lacking = "the plan names its slots only: write the template of each branch into it"
    if info.task is None:
        return {}, (Note("templates_unknown", lacking),)
    try:
        options = {name: value for name, value in info.options.items() if name != "name"}
        # A file of one's own is named after it: its kind stands in the options.
        task: Task = plugins.load("task", str(info.options.get("name", info.task)), **options)
    except (KeffError, TypeError) as error:
        return {}, (Note("templates_unknown", f"{lacking} (its task cannot be opened: {error})"),)
    return dict(enumerate(task.templates)), ()
