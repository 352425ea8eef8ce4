"""Policies that are fitted to pilots, driven live or weighted, and input that cannot be replayed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from keff.analysis.recorded import Rows
from keff.analysis.replay import Replaying, replay
from keff.analysis.replay.compare import Pilot, Refitter
from keff.analysis.walks import PolicyOutcome
from keff.errors import PolicyError
from keff.policies import fixed
from keff.policy import Need, Policy, Sample, Stop, View, parse_policy
from keff.stats.votes import Votes
from keff.stats.voting.plurality import plurality_at_k
from replay_rig import records, rng, row

pytestmark = pytest.mark.slow


@dataclass
class Spy:
    """A fittable policy that keeps the pilots it was given."""

    spec: str = "spy"
    cap: int = 5
    fitted: bool = False
    needs: frozenset[Need] = frozenset({"answers", "labels"})
    pilots: list[Votes] = field(default_factory=list)

    def decide(self, view: View) -> Sample | Stop:  # noqa: ARG002
        raise AssertionError("an unfitted policy was asked to decide")

    def fit(self, pilot: Votes) -> Policy:
        self.pilots.append(pilot)
        return fixed.policy(5)


def test_pilots_are_small_and_judged_elsewhere() -> None:
    n = 30
    answers = np.zeros((n, 8), int)
    # Question i is right when i is odd; the pilot is told apart by its clusters.
    votes = Votes(answers, np.tile(np.arange(n)[:, None] % 2, (1, 8)), clusters=np.arange(n))
    spy = Spy()
    found = replay(votes, [spy], rng(), Replaying(cap=8, pilot=Pilot(10, 4))).policies[0]
    assert spy.pilots.pop().n == votes.n  # what is named as fitted rests on the whole record
    assert len(spy.pilots) == 25
    assert {(pilot.n, pilot.k) for pilot in spy.pilots} == {(10, 4)}
    first = spy.pilots[0]
    assert first.clusters is not None
    assert found.pilot.paths == 40 and found.pilot.labels == 10
    assert found.pilot.mean_paths_with_pilot[1000] == pytest.approx(5 + 40 / 1000)
    # If pilot questions were judged too, every split would have accuracy one half.
    assert found.accuracy.lo < 0.45 < 0.55 < found.accuracy.hi


def test_fitted_policies_have_rows_with_intervals() -> None:
    votes = records(n=60)
    specs = ["adaptive_k:cap=24", "pilot_budget:0.95,cap=24", "pilot_budget:0.95,a=1,w=0.2,cap=24"]
    found = replay(votes, specs, rng(), Replaying(cap=24))
    for one in found.policies:
        assert one.accuracy.lo <= one.accuracy.value <= one.accuracy.hi
        assert 1 <= one.mean_paths <= 24
    assert [one.pilot is None for one in found.policies] == [False, False, True]


class Third:
    """A policy of somebody else's that only decides: it answers with the second vote."""

    spec, cap = "third", 4
    needs: frozenset[Need] = frozenset({"answers"})

    def decide(self, view: View) -> Sample | Stop:
        if len(view.keys) < 3:
            return Sample(3 - len(view.keys))
        return Stop(view.keys[1], 1.0, "vote_share", "the second speaks")


def test_a_policy_that_is_not_vectorised_is_driven_live() -> None:
    found = replay(records(n=6, k=10), [Third()], rng(), Replaying(cap=10)).policies[0]
    assert (found.mean_paths, found.rounds) == (3, 1)
    single = plurality_at_k(records(n=6, k=10))[0]
    # One vote is worth a single path, up to the random orders that are corrected at the cap only.
    assert found.accuracy.value == pytest.approx(single, abs=0.06)


def test_weighted_votes_are_replayed() -> None:
    votes = records(confidences=np.where(records().scored() == 1, 1.0, 0.0))
    found = replay(votes, ["fixed:6", "fixed:6,weight=confidence,temperature=0.05"], rng(), Replaying(cap=24))
    plain, weighted = found.policies
    assert weighted.accuracy.value > plain.accuracy.value
    even = Votes(votes.answers, votes.correct, confidences=np.zeros((40, 24)))
    same = replay(even, ["fixed:6", "fixed:6,weight=confidence"], rng(), Replaying(cap=24)).policies
    assert same[1].accuracy.value == pytest.approx(same[0].accuracy.value, abs=0.01)


def test_one_question_is_replayed_without_intervals_but_fits_no_policy() -> None:
    one = records(n=1)
    found = row(replay(one, ["lead_k:3,cap=24"], rng(), Replaying(cap=24)), "lead_k:3,cap=24")
    assert found.accuracy.value is not None and found.accuracy.lo is None
    with pytest.raises(PolicyError, match="fitted on other questions"):
        replay(one, ["pilot_budget:0.98,cap=24"], rng(), Replaying(cap=24))


def test_bad_input_is_refused_with_what_to_do() -> None:
    votes = records(k=10)
    with pytest.raises(PolicyError, match="records hold 10: write lead_k:3,cap=10"):
        replay(votes, ["lead_k:3,cap=12"], rng())
    with pytest.raises(PolicyError, match="use at most 10"):
        replay(votes, ["fixed:2"], rng(), Replaying(cap=11))
    with pytest.raises(PolicyError, match="needs a confidence"):
        replay(votes, ["fixed:2,weight=confidence"], rng())
    with pytest.raises(PolicyError, match="no answers"):
        replay(Votes.from_correct(votes.scored()), ["fixed:2"], rng())
    slots = Votes(votes.answers, votes.correct, slots=np.arange(10) % 2)
    with pytest.raises(PolicyError, match="not exchangeable: replay the paths of one slot"):
        replay(slots, ["fixed:2"], rng())
    assert replay(slots, ["fixed:2"], rng(), Replaying(random_slots=True)).n == 40
    with pytest.raises(PolicyError, match="gold labels"):
        replay(Votes(votes.answers, None), ["adaptive_k:cap=10"], rng())


def test_a_rule_without_its_cap_draws_what_is_recorded() -> None:
    for k, spec in ((10, "lead_k:3,cap=10"), (40, "lead_k:3,cap=32")):
        (found,) = replay(records(k=k), ["lead_k:3"], rng()).policies
        assert parse_policy(found.policy).spec == parse_policy(spec).spec


def test_a_cap_beyond_the_records_is_told_what_works() -> None:
    for spec in ("fixed:11", "curtailed:cap=11"):
        with pytest.raises(PolicyError, match=r"records hold 10: write (fixed:10|curtailed:cap=10)$"):
            replay(records(k=10), [spec], rng())


def test_a_fitted_rule_has_the_interval_of_the_rule_that_it_always_becomes() -> None:
    votes = records(n=60, k=8)
    fitted, plain = replay(votes, [Spy(), "fixed:5"], rng(), Replaying(cap=8)).policies
    for name in ("accuracy", "kept"):
        mine, its = getattr(fitted, name), getattr(plain, name)
        assert (mine.value, mine.lo, mine.hi) == pytest.approx((its.value, its.lo, its.hi))


def test_the_noise_of_the_drawn_orders_is_in_the_interval_of_a_fitted_rule() -> None:
    n, noise = 40, 0.04
    votes = Votes(np.zeros((n, 8), np.int64), np.ones((n, 8), np.int64))
    even = np.full(n, 0.5)
    outcome = PolicyOutcome(even, even, even, even, None, noise=np.full(n, noise))
    policy = parse_policy("adaptive_k")
    rows = Rows(votes.cluster_ids, n)
    refitter = Refitter(votes, rows, policy, Pilot(4, 4), lambda _: outcome, np.random.default_rng(0))
    assert rows.error(refitter.outcome_without().noise, rows.weights) == pytest.approx(np.sqrt(noise / n))
