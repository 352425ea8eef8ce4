"""Sample under a policy over several branches: each branch draws into a run of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence

from keff.engine import Engine
from keff.errors import PolicyError
from keff.policy import Branching, Policy, RunningVote, View, cancel_running, run_vote
from keff.records import Item, frozen
from keff.sampling.orders import Order, Progress
from keff.sampling.sampler import PREPARED, MissingPathError, Session, bounded, launch_view
from keff.sampling.store import Run
from keff.sampling.verifier import Verifier
from keff.task import Task


@frozen
class BranchSampler:
    """One branch of a policy: its task, engine, drawing order, run folder and, if any, its checker."""

    run: Run
    task: Task
    engine: Engine
    order: Order
    verifier: Verifier | None = None


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
    sessions = {
        name: Session(arm.run, arm.task, arm.engine, arm.order, None, arm.verifier)
        for name, arm in arms.items()
    }
    units = (_ItemVote(item, arms, sessions, policy).run() for item in items)
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


class _ItemVote:
    """The vote of one item, whose paths are drawn into the runs of their branches."""

    def __init__(
        self,
        item: Item,
        arms: Mapping[str, BranchSampler],
        sessions: Mapping[str, Session],
        policy: Policy,
    ) -> None:
        self.item, self.arms, self.sessions, self.policy = item, arms, sessions, policy

    async def run(self) -> None:
        """Draw paths until the policy stops; stored paths count without being drawn."""
        for session in self.sessions.values():
            session.begin(self.item)
            await session.rate(self.item, self.policy)
        held = self._launch_views()
        self.vote = RunningVote(self.policy, self._view, lambda place: len(self._at(place, held)) > 0)
        running: dict[asyncio.Task[None], Sequence[int]] = {}
        try:
            await run_vote(self.vote, self._calls, running)
        except MissingPathError:
            return
        finally:
            await cancel_running(running)

    def _calls(self, places: Sequence[int]) -> Iterator[tuple[list[int], Coroutine[None, None, None]]]:
        if any(session.halted() for session in self.sessions.values()):
            raise MissingPathError
        asked = self.vote.branches
        for name in dict.fromkeys(asked[place] for place in places):
            own = [place for place in places if asked[place] == name]
            yield own, self._reach(self.sessions[name], asked[: own[-1] + 1].count(name))

    async def _reach(self, session: Session, target: int) -> None:
        await session.reach(self.item, target)
        await session.rate(self.item, self.policy)

    def _view(self, places: Sequence[int]) -> View:
        stored = self._launch_views()
        seen = [path for place in places for path in self._at(place, stored)]
        if len(seen) < len(places):
            raise MissingPathError
        keys, confidence = [key for key, _ in seen], [rating for _, rating in seen]
        return View(keys, confidence, branches=self.vote.branches[: len(places)])

    def _launch_views(self) -> dict[str, View]:
        return {
            name: launch_view(arm.run, arm.task, self.item, arm.order.slots[0], self.policy)
            for name, arm in self.arms.items()
        }

    def _at(self, place: int, stored: Mapping[str, View]) -> list[tuple[str | None, float]]:
        """Return key and confidence at a launch position, a list of one; of none where it is not stored."""
        name = self.vote.branches[place]
        index, view = self.vote.branches[:place].count(name), stored[name]
        return [*zip(view.keys, view.confidence, strict=True)][index : index + 1]
