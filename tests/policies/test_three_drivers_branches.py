"""One policy over branches, three drivers: the gateway and the vectorised replay end as a plain walk does.

(That sampling does too is in sampling/test_branches.) How late a path is hangs on whether it is right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from branch_rig import PATHS, SPECS, TICK, replayed, votes
from keff.analysis.mix.orders import BranchOrders, Orders
from keff.analysis.mix.search import replay_cascade, replay_mix
from keff.gateway.upstream.answer import Answer, UpstreamError
from keff.gateway.vote.vote import Outcome, PathResult, Vote
from keff.policies.cascade import Cascade
from keff.policies.mix import Mix
from keff.policy import Policy, parse_policy
from keff.protocol.server import Refusal, Sharing

GOLD = "11"
MORE = (
    *SPECS,
    "cascade:L(lead_k:2,cap=4)/S(lead_k:3,cap=8)",
    "cascade:S(fixed:2)/L(lead_k:2,cap=6),keep=fresh",
)
Queues = Mapping[str, Sequence[str | None]]


async def served(policy: Policy, queues: Queues, late: str, stumbles: frozenset[int]) -> Outcome:
    left = set(stumbles)

    async def call(start: int, n: int, branch: str) -> Answer:
        own = vote.asked[:start].count(branch)
        keys = queues[branch][own : own + n]
        await asyncio.sleep(TICK * (1 + 5 * any((key == GOLD) == (late == "right") for key in keys)))
        if start in left:
            left.remove(start)
            raise UpstreamError("stumbled", Refusal(0, wait=TICK))
        return Answer([{"key": key} for key in keys], {})

    async def judge(answer: Answer) -> list[PathResult]:
        return [PathResult(choice, {}, choice["key"]) for choice in answer.choices]

    shares = {"S": Sharing(1), "L": Sharing(3)}
    vote = Vote(policy, call, judge, Sharing(1), shares)
    return await vote.run()


def vectorised(policy: Policy, queues: Queues) -> tuple[float, float]:
    """Return the credit and the paths of one question by the replay of ``keff mix``."""
    names = list(queues)
    known = list(dict.fromkeys(key for row in queues.values() for key in row if key is not None))
    orders: list[BranchOrders] = []
    for row in queues.values():
        codes = np.array([[-1 if key is None else known.index(key) for key in row]], np.int16)
        right = np.array([[key == GOLD for key in row]], np.float32)
        orders.append(BranchOrders(codes, right, np.arange(PATHS + 1, dtype=np.float64)[None]))
    along = Orders(tuple(orders), 1, 1)
    if isinstance(policy, Mix):
        credit, paths = replay_mix(policy, along, names)
    else:
        assert isinstance(policy, Cascade)
        credit, paths = replay_cascade(policy, along, names)
    return float(credit[0]), float(paths[0])


@pytest.mark.parametrize("spec", MORE)
@given(
    small=votes,
    large=votes,
    late=st.sampled_from(["right", "wrong"]),
    stumbles=st.frozensets(st.integers(0, 5)),
)
@settings(max_examples=12, deadline=None)
def test_served_and_replayed_votes_of_branches_end_alike(
    spec: str, small: list[str | None], large: list[str | None], late: str, stumbles: frozenset[int]
) -> None:
    policy, queues = parse_policy(spec), {"S": small, "L": large}
    asked, keys, stop = replayed(policy, queues)
    outcome = asyncio.run(served(policy, queues, late, stumbles))
    assert [(path.branch, path.key) for path in outcome.paths] == list(zip(asked, keys, strict=True))
    assert outcome.stop == stop and outcome.cause == "policy"
    credit, paths = vectorised(policy, queues)
    assert paths == len(asked)
    # Replay splits a tie; the live drivers answer with the first answer seen of those tied.
    assert credit == float(stop.answer == GOLD) or 0 < credit < 1
