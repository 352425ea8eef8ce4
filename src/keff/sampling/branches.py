"""Sample under a policy over several branches: each branch draws into a run of its own."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

from keff.engine import Engine
from keff.errors import PolicyError
from keff.policy import Branching, Policy, Sample, Stop, View
from keff.records import Item, frozen
from keff.sampling.orders import Order, Progress
from keff.sampling.sampler import PREPARED, Session, bounded, launch_view
from keff.sampling.store import Run
from keff.task import Task


@frozen
class BranchSampler:
    """One branch of a policy: its task, engine, drawing order and run folder."""

    run: Run
    task: Task
    engine: Engine
    order: Order


async def sample_branches(
    arms: Mapping[str, BranchSampler], items: Sequence[Item], policy: Policy
) -> dict[str, Progress]:
    """Draw every item's paths under a policy over branches; returns the counts of each branch.

    Votes are seen in the policy's launch order, whatever the order of arrival; paths that were kept in an
    earlier session count as drawn, so an interrupted sampling goes on where it stopped. An item whose paths
    fail, or that meets the limits of an order, is left as it is. Raises PolicyError when the policy asks a
    branch that is not there.
    """
    _check(arms, policy)
    sessions = {name: Session(arm.run, arm.task, arm.engine, arm.order, None) for name, arm in arms.items()}
    units = (_follow(item, arms, sessions, policy) for item in items)
    await bounded(units, PREPARED * max(session.limit for session in sessions.values()))
    for session in sessions.values():
        session.end()
    return {name: session.progress for name, session in sessions.items()}


def _check(arms: Mapping[str, BranchSampler], policy: Policy) -> None:
    asked = policy.branches if isinstance(policy, Branching) else ()
    missing = [name for name in asked if name not in arms]
    if missing or not asked:
        what = f"asks branch {missing[0]}" if missing else "asks one model only"
        raise PolicyError(f"{policy.spec} {what}: the branches are {', '.join(arms)}")


async def _follow(
    item: Item, arms: Mapping[str, BranchSampler], sessions: Mapping[str, Session], policy: Policy
) -> None:
    for session in sessions.values():
        session.begin(item)
    while True:
        view, decision = branch_view(arms, item, policy)
        if isinstance(decision, Stop) or any(session.halted() for session in sessions.values()):
            return
        used, wanted = Counter(view.branches), Counter(decision.branches)
        reached = [sessions[name].reach(item, used[name] + more) for name, more in wanted.items()]
        if not all(await asyncio.gather(*reached)):
            return


def branch_view(arms: Mapping[str, BranchSampler], item: Item, policy: Policy) -> tuple[View, Sample | Stop]:
    """Return the policy's view of an item, its kept paths up to the first gap, and the decision."""
    kept = {
        name: launch_view(arm.run, arm.task, item, arm.order.slots[0], policy).keys
        for name, arm in arms.items()
    }
    keys: list[str | None] = []
    asked: list[str] = []
    left = True
    while True:
        view = View(tuple(keys), branches=tuple(asked))
        decision = policy.decide(view)
        if isinstance(decision, Stop) or not left:
            return view, decision
        for name in decision.branches:
            if not (left := asked.count(name) < len(kept[name])):
                break
            keys.append(kept[name][asked.count(name)])
            asked.append(name)
