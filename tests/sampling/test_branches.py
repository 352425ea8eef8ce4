"""Sampling over branches ends as replay does, however late the right answers come."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from branch_rig import PATHS, SPECS, TICK, Late, replayed, task_of, votes
from keff.errors import PolicyError
from keff.policy import parse_policy
from keff.records import Sampling
from keff.sampling.branches import BranchSampler, sample_branches
from keff.sampling.job import Job, configuration
from keff.sampling.sampler import Order, launch_view
from keff.sampling.store import Run
from keff.task import select


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS)
@given(
    small=st.lists(votes, min_size=3, max_size=3),
    large=st.lists(votes, min_size=3, max_size=3),
    late=st.sampled_from(["right", "wrong"]),
    stumbles=st.frozensets(st.integers(0, 3), max_size=2),
)
@settings(max_examples=5, deadline=None)
def test_sampled_and_replayed_votes_end_alike(
    tmp_path_factory: pytest.TempPathFactory,
    spec: str,
    small: list[list[str | None]],
    large: list[list[str | None]],
    late: str,
    stumbles: frozenset[int],
) -> None:
    folder = tmp_path_factory.mktemp("branches")
    policy, task = parse_policy(spec), task_of(folder, ["11", "12", "13"])
    items = select(task)
    recorded = {"S": small, "L": large}
    with ExitStack() as stack:
        arms: dict[str, BranchSampler] = {}
        for name, keys in recorded.items():
            engine = Late(task, keys, late, stumbles)
            order = Order(Sampling(), PATHS, concurrency=3, backoff=TICK, breaker=10 * PATHS)
            config = configuration(Job(task, engine, folder / name, order), items[0])
            run = stack.enter_context(Run.write(folder / name, config, n=len(items), k=PATHS))
            arms[name] = BranchSampler(run, task, engine, order)
        asyncio.run(sample_branches(arms, items, policy))
        again = asyncio.run(sample_branches(arms, items, policy))
        assert sum(progress.done for progress in again.values()) == 0
        for place, item in enumerate(items):
            asked, keys, _ = replayed(policy, {name: rows[place] for name, rows in recorded.items()})
            drawn = {
                name: list(launch_view(arm.run, arm.task, item, 0, policy).keys) for name, arm in arms.items()
            }
            votes = list(zip(asked, keys, strict=True))
            assert drawn == {name: [key for branch, key in votes if branch == name] for name in arms}


def test_a_branch_that_is_not_there_is_named() -> None:
    with pytest.raises(PolicyError, match="asks branch S"):
        asyncio.run(sample_branches({}, [], parse_policy(SPECS[0])))
