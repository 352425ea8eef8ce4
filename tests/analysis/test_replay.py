"""Replay against enumeration, closed forms and simulated truth."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from keff.analysis.recorded import PathTokens, RecordedPaths, Rows
from keff.analysis.replay import Replaying, markdown, replay
from keff.analysis.replay.compare import Fixed, with_frontier
from keff.analysis.results.replay import ReplayRow
from keff.analysis.walks import PolicyOutcome, decisions, expectations, run, share_changed
from keff.policy import Policy, Stop, parse_policy, tally
from keff.records import Interval
from keff.stats.intervals import interval_mean
from keff.stats.models.mixture import vote_counts
from keff.stats.votes import Votes
from keff.stats.voting.alike import dense_codes, vote_patterns
from keff.stats.voting.draws import Draws, permute_paths
from keff.stats.voting.plurality import flip, plurality_at_k
from replay_rig import records, rng, row

pytestmark = pytest.mark.slow


def test_fixed_k_is_the_exact_average_over_subsets() -> None:
    votes = records()
    found = replay(votes, ["fixed:1", "fixed:7", "fixed:24"], rng(), Replaying(cap=24))
    curve = plurality_at_k(votes)
    for k in (1, 7, 24):
        assert row(found, f"fixed:{k}").accuracy.value == pytest.approx(curve[k - 1], abs=1e-12)
        assert row(found, f"fixed:{k}").delta_at_equal_cost.value == pytest.approx(0, abs=1e-12)
        assert (row(found, f"fixed:{k}").mean_paths, row(found, f"fixed:{k}").rounds) == (k, 1)


def test_curtailed_keeps_everything_and_a_sure_rule_draws_the_cap() -> None:
    found = replay(records(), ["fixed:24", "curtailed:cap=24", "lead_k:25,cap=24"], rng(), Replaying(cap=24))
    whole, early, never = found.policies
    for one in (early, never):
        assert one.accuracy.value == pytest.approx(whole.accuracy.value, abs=1e-7)
        assert one.kept.value == pytest.approx(1)
        assert one.kept.lo - 1e-9 <= 1 <= one.kept.hi + 1e-9
    assert early.kept.limits == (early.kept.value, early.kept.value)  # the same answers by construction
    assert early.mean_paths < whole.mean_paths == never.mean_paths == 24
    assert early.same_answer_as_cap <= 1


@pytest.mark.parametrize("spec", ["lead_k:2,cap=5", "budget:2,cap=5", "esc:2,cap=5", "fixed:4"])
def test_all_orders_of_a_small_record_are_averaged(spec: str) -> None:
    """Live decisions on all 120 orders, ties split by hand, against one vectorised pass."""
    answers = np.array([[0, 0, 1, 2, 1], [0, -1, 1, 1, 3], [2, 2, 2, 2, 2]])
    correct = np.array([[1, 0, 1, 0, 0], [0, 0, 1, 1, 0], [1, 1, 1, 1, 0]])
    orders = np.array(list(itertools.permutations(range(5))))
    codes, right = dense_codes(answers)[:, orders], correct[:, orders].astype(np.float32)
    draws = Draws(codes, correct=right)
    policy = parse_policy(spec)
    found = expectations(run(policy, draws), draws, 5)
    for item in range(3):
        paths, credit = [], []
        for keys, scores in zip(codes[item], right[item], strict=True):
            names = [None if key < 0 else str(key) for key in keys]
            *_, (n, stop) = decisions(policy, names, [])
            counts = tally(names[:n])
            winners = [key for key, count in counts.counts.items() if count == counts.v1]
            assert isinstance(stop, Stop)
            paths.append(n)
            credit.append(
                np.mean([scores[:n][[name == winner for name in names[:n]]].mean() for winner in winners])
            )
        assert found.paths[item] == pytest.approx(np.mean(paths))
        assert found.accuracy is not None
        assert found.accuracy[item] == pytest.approx(np.mean(credit), abs=1e-6)


def test_random_orders_are_unbiased_for_the_enumeration() -> None:
    votes = Votes(np.array([[0, 0, 1, 2, 1, 0]]), np.array([[1, 1, 0, 0, 0, 1]]))
    policy = parse_policy("lead_k:2,cap=6")
    orders = np.array(list(itertools.permutations(range(6))))
    every = Draws(
        dense_codes(votes.answered())[:, orders], correct=votes.scored()[:, orders].astype(np.float32)
    )
    exact = expectations(run(policy, every), every, 6)
    drawn = permute_paths(votes, 6, 20_000, rng())
    some = expectations(run(policy, drawn), drawn, 6)
    assert some.paths[0] == pytest.approx(exact.paths[0], abs=0.03)
    assert some.accuracy is not None and exact.accuracy is not None
    assert some.accuracy[0] == pytest.approx(exact.accuracy[0], abs=0.015)


def test_a_recording_longer_than_the_cap_stands_for_the_model() -> None:
    """Prefixes of random orders of 64 recorded paths cost what fresh paths of the same law cost."""
    generator = np.random.default_rng(8)
    law = [0.6, 0.3, 0.1]
    recorded = Votes(generator.choice(3, p=law, size=(1600, 64)), None)
    fresh = Draws(generator.choice(3, p=law, size=(1600, 20, 20)).astype(np.int16))
    policy = parse_policy("budget:3,cap=20")
    found = replay(recorded, [policy], rng(), Replaying(cap=20)).policies[0]
    assert found.mean_paths == pytest.approx(run(policy, fresh).stop.mean(), abs=0.15)
    assert found.accuracy is None and found.kept is None


def test_tokens_weigh_what_was_drawn() -> None:
    votes = records(tokens=np.tile(np.arange(1.0, 25.0), (40, 1)))
    found = replay(votes, ["fixed:6", "lead_k:2,cap=24"], rng(), Replaying(cap=24))
    assert row(found, "fixed:6").mean_tokens == pytest.approx(6 * 12.5)
    lead = row(found, "lead_k:2,cap=24")
    assert lead.mean_tokens == pytest.approx(12.5 * lead.mean_paths, rel=0.02)


def test_equal_cost_is_fixed_k_randomised_between_neighbours() -> None:
    n = 6
    rows = Rows(np.arange(n), n)
    fixed = Fixed(np.tile([0.5, 0.6, 0.8], (n, 1)), np.full(n, 10.0), 3)

    def outcome(tokens: float) -> PolicyOutcome:
        each = np.ones(n)
        return PolicyOutcome(each, each, each, 0.75 * each, tokens * each)

    assert fixed.at_equal_cost(rows, outcome(25.0)).value == pytest.approx(0.75 - 0.7)
    assert fixed.at_equal_cost(rows, outcome(99.0)).value == pytest.approx(0.75 - 0.8)
    assert fixed.kept(rows, outcome(25.0)).value == pytest.approx(0.75 / 0.8)


def test_the_frontier_is_what_nothing_beats() -> None:
    def policy(cost: float, accuracy: float) -> ReplayRow:
        share = Interval(accuracy, None, None, "given")
        return ReplayRow("rule", share, None, None, cost, None, 1.0, 1.0, None)

    rows = [policy(4, 0.7), policy(5, 0.7), policy(6, 0.8), policy(3, 0.6), policy(8, 0.79)]
    assert [row.frontier for row in with_frontier(rows)] == [True, False, True, True, False]
    tokens = [replace(rows[0], mean_tokens=90.0), replace(rows[1], mean_tokens=80.0)]
    assert [row.frontier for row in with_frontier(tokens)] == [False, True]


def test_clusters_are_resampled_whole() -> None:
    """Ten copies of each question: the interval is that of the questions, not ten times as many."""
    few = records(n=20, seed=3)
    assert few.answers is not None and few.correct is not None
    copies = Votes(
        np.repeat(few.answers, 10, axis=0),
        np.repeat(few.correct, 10, axis=0),
        clusters=np.repeat(np.arange(20), 10),
    )

    def width(votes: Votes) -> float:
        found = replay(votes, ["fixed:5"], rng(), Replaying(cap=24)).policies[0].accuracy
        return found.hi - found.lo

    alone = Votes(copies.answers, copies.correct)
    assert width(copies) == pytest.approx(width(few), rel=0.15)
    assert width(alone) < 0.5 * width(few)


def test_the_table_has_a_line_for_each_policy() -> None:
    text = markdown(replay(records(), ["fixed:4", "curtailed:cap=24"], rng(), Replaying(cap=24)))
    assert text.count("\n| `") == 2 and "100.0% [100.0, 100.0]" in text


@pytest.mark.parametrize("cap", [3, 8, 24])
def test_curtailed_is_fixed_at_its_own_cap_whatever_it_is_compared_with(cap: int) -> None:
    found = replay(records(), [f"fixed:{cap}", f"curtailed:cap={cap}"], rng(), Replaying(cap=16))
    whole, early = found.policies
    assert early.accuracy.value == pytest.approx(whole.accuracy.value, abs=1e-7)


def recorded_of(votes: Votes, rule: Policy, seed: int = 0) -> RecordedPaths:
    """Return 100,000 orders of drawing up to the cap of the rule."""
    rng = np.random.default_rng(seed)
    return RecordedPaths.of(votes, [rule], rule, rule.cap, rng, 100_000, timed=False)


def test_the_noise_of_the_drawn_orders_is_what_repeats_of_them_show() -> None:
    """Replay the same record with other orders: the stated variance is that of the means."""
    rng = np.random.default_rng(0)
    right = (rng.random((12, 16)) < rng.beta(1, 1, 12)[:, None]).astype(np.int64)
    votes = Votes(np.where(right > 0, 0, rng.integers(1, 4, right.shape)), right)
    rule, means, stated = parse_policy("lead_k:2,cap=12"), list[float](), list[float]()
    for seed in range(60):
        whole = recorded_of(votes, rule, seed)
        few = np.full_like(whole.orders.repeats, 40)
        short = replace(whole, orders=replace(whole.orders, repeats=few, kept=[]), outcomes={}, walks_now={})
        outcome, rows = short.outcome(rule), short.rows
        means.append(rows.mean(outcome.accuracy))
        stated.append(rows.error(outcome.noise, rows.weights) ** 2)
    assert np.var(means) == pytest.approx(np.mean(stated), rel=0.5)
    # As many orders leave little of it.
    assert whole.rows.error(whole.outcome(rule).noise, whole.rows.weights) < 0.001


def alike_records(tokens: bool) -> Votes:
    """Return 400 questions of a dozen patterns; the tokens differ by question and by answer."""
    rng = np.random.default_rng(4)
    few = rng.integers(-1, 3, (12, 5))
    codes = rng.permuted(few[rng.integers(0, 12, 400)], axis=1)
    spent = rng.integers(5, 50, codes.shape) + 40.0 * (codes == 1) if tokens else None
    return Votes(codes, (codes == 0).astype(np.int64), tokens=spent)


def test_questions_of_one_pattern_are_replayed_as_one_with_its_exact_expectations() -> None:
    """Against every order of the five paths of every question, and interval formulas over questions."""
    votes, rule = alike_records(tokens=True), parse_policy("lead_k:2,cap=5")
    places = np.array(list(itertools.permutations(range(5))))

    def enumerated(values: np.ndarray) -> np.ndarray:
        return values[:, places]

    every = Draws(enumerated(dense_codes(votes.answered())), enumerated(votes.scored()).astype(np.float32))
    every = replace(every, tokens=enumerated(votes.tokens).astype(np.float32))
    exact = expectations(run(rule, every), every, 5)

    recorded = recorded_of(votes, rule)
    patterns = vote_patterns(votes).counts.size
    assert recorded.orders.repeats.size == patterns <= 13
    found = recorded.outcome(rule)
    for name in ("paths", "accuracy", "tokens", "agrees"):
        ours, theirs = getattr(found, name), getattr(exact, name)
        assert ours.shape == (400,) and np.abs(ours.mean() - theirs.mean()) < 2e-3 * theirs.mean()
    # Of all orders the tokens of each kind of answer give those of each question, and no less.
    assert recorded.tokens is not None
    of_one = Draws(every.codes[:1], every.correct[:1])
    stop = run(rule, of_one).stop
    tokens = PathTokens.of(votes.take([0, 0]), votes.take([0]))
    spent = tokens.tokens_per_question(tokens.mean_draws(of_one, slice(0, 1), stop), np.zeros(2, np.int64))
    assert spent == pytest.approx(np.repeat(exact.tokens[0], 2), rel=1e-6)

    bare = recorded_of(alike_records(tokens=False), rule)
    by_pattern = bare.outcome(rule)
    assert by_pattern.paths.shape == (patterns,)
    spread = interval_mean(by_pattern.paths[bare.rows.pattern])
    assert bare.rows.interval(by_pattern.paths).limits == pytest.approx(spread.interval.limits, rel=1e-12)


@pytest.mark.parametrize("kept", [0, 2**24])
def test_blocks_of_questions_change_no_number(monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    rng = np.random.default_rng(5)
    codes = rng.integers(-1, 4, (90, 9))
    votes = Votes(
        codes,
        (codes == 0).astype(int),
        tokens=rng.integers(5, 50, codes.shape).astype(float),
        confidences=rng.random(codes.shape),
        seconds=rng.random(codes.shape),
    )
    rules = ["fixed:9", "lead_k:2,cap=9", "adaptive_consistency:0.9,cap=9", "budget:3,cap=9", "esc:3,cap=9"]

    monkeypatch.setattr("keff.analysis.workload.ORDERS_IN_ALL", 20 * 90)

    def told() -> dict[str, object]:
        return replay(votes, rules, np.random.default_rng(1)).to_dict()

    whole = told()
    monkeypatch.setattr("keff.analysis.recorded.BLOCK_CELLS", 9 * 20 * 40)
    monkeypatch.setattr("keff.analysis.recorded.KEPT_CELLS", kept)
    assert told() == whole


def test_without_gold_answers_policies_are_judged_by_the_answer_of_today() -> None:
    whole = replace(records(), correct=None)
    ranked = np.sort(vote_counts(whole)[0], axis=1)[:, ::-1]
    votes = whole.take(ranked[:, 0] > ranked[:, 1])
    found = replay(
        votes, ["fixed:1", "fixed:6", "fixed:24", "curtailed:cap=24"], rng(), Replaying(now="fixed:24")
    )
    same = [row.same_answer for row in found.policies]
    # Of fixed K this is 1 - flip, the exact average over subsets, where all 24 paths have no tie.
    exact = 1 - flip(votes)
    for k, interval in zip((1, 6, 24), same[:3], strict=True):
        assert interval is not None
        assert interval.value == pytest.approx(exact[k - 1], abs=0.01)
        assert interval.lo is not None and interval.hi is not None
        assert interval.lo <= interval.value <= interval.hi
    assert same[3] == same[2]
    assert [row.change.paths.value for row in found.policies[:3] if row.change] == [-23, -18, 0]
    assert not found.labelled
    assert "the answers of fixed:24" in markdown(found)


def test_a_rule_deployed_today_agrees_with_itself() -> None:
    for votes in (records(), replace(records(), correct=None)):
        found = replay(votes, ["lead_k:2,cap=8", "fixed:8"], rng(), Replaying(now="lead_k:2,cap=8"))
        first, second = (row.same_answer for row in found.policies)
        assert first is not None and second is not None
        assert (first.value, second.value < 1) == (1, True)


def test_a_tie_is_half_a_change_of_answer_unless_both_saw_the_same_votes() -> None:
    votes = Votes(np.array([[0, 0, 1, 1], [0, 0, 0, 1]]), np.array([[1, 1, 0, 0], [1, 1, 1, 0]]))
    draws = permute_paths(votes, 4, 400, np.random.default_rng(0))
    specs = ("fixed:4", "lead_k:2,cap=4", "curtailed:cap=4")
    full, lead, exact = (run(parse_policy(spec), draws) for spec in specs)
    flips = share_changed(lead, full, draws)
    stopped = lead.stop < 4
    assert np.all(flips[0] == 0.5 * stopped[0])
    assert not flips[1].any()
    assert not share_changed(full, full, draws).any() and not share_changed(exact, full, draws).any()
    # A tie is worth half, so that is what stopping at one of its answers gains or loses.
    assert lead.credit is not None and full.credit is not None
    assert np.all(np.abs(lead.credit - full.credit)[0] == flips[0])


@pytest.mark.parametrize(("right", "limited"), [(40, True), (1, False)])
def test_the_share_kept_is_a_share_and_has_no_limits_of_a_vote_that_may_never_be_right(
    right: int, limited: bool
) -> None:
    """One path is right more often than the vote: nothing is lost, and no more than everything is kept."""
    answers = np.array([[0] * 3 + [1] * 5] * 20 + [[0] * 8] * right + [[1] * 8] * (60 - right))
    found = replay(Votes(answers, (answers == 0).astype(int)), ["fixed:1", "fixed:8", "lead_k:4"], rng())
    once, vote, leads = found.policies
    assert once.accuracy.value > vote.accuracy.value
    assert once.kept.value == 1 and 0 < leads.kept.value <= 1
    for kept in (once.kept, leads.kept):
        assert (kept.limits is not None) == limited
        assert kept.limits is None or 0 <= kept.limits[0] <= kept.limits[1] <= 1
    assert replay(Votes(answers + 9, 0 * answers), ["fixed:1"], rng()).policies[0].kept is None
