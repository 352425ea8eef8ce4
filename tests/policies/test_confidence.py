"""Switched combining and votes weighted by log odds: formulas, special cases, and what they refuse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from keff.analysis.replay import replay
from keff.analysis.walks import run
from keff.errors import PolicyError
from keff.policy import Sample, Stop, View, parse_policy
from keff.stats.votes import Votes
from keff.stats.voting.calibration import Calibration, uninformative
from keff.stats.voting.draws import Draws

EVEN = {"confidence": uninformative(0.6)}
STRAIGHT = {"confidence": Calibration((0.0, 1.0), (0.0, 1.0), (0.5, 1.5), 0.5)}


def random_draws(seed: int = 0, shape: tuple[int, int, int] = (40, 30, 12)) -> Draws:
    rng = np.random.default_rng(seed)
    codes = rng.choice([-1, 0, 1, 2], p=[0.1, 0.5, 0.25, 0.15], size=shape).astype(np.int16)
    # In steps that single precision holds, so that a replay and a live vote read the same number.
    scores = (rng.integers(0, 1025, shape) / 1024).astype(np.float32)
    return Draws(codes, correct=(codes == 0).astype(np.float32), confidences=scores)


@pytest.mark.parametrize(
    "spec", ["adaptive_consistency:0.95,cap=12", "lead_k:3,cap=12", "budget:3,b=8,cap=12", "curtailed:cap=12"]
)
def test_without_information_a_weighted_rule_is_the_rule(spec: str) -> None:
    draws = random_draws()
    plain, weighed = run(parse_policy(spec), draws), run(parse_policy(f"{spec},weight=log_odds", EVEN), draws)
    assert np.array_equal(plain.stop, weighed.stop)
    assert np.array_equal(plain.answer, weighed.answer)
    assert np.array_equal(plain.credit, weighed.credit)


def test_weights_that_are_powers_of_the_confidence_answer_as_cisc_does() -> None:
    draws, at = random_draws(1), np.linspace(0, 1, 1025)
    powers = {"confidence": Calibration(tuple(at), tuple(at), tuple(np.exp(at / 0.5)), 0.5)}
    ours = run(parse_policy("fixed:12,weight=log_odds", powers), draws).answer
    theirs = run(parse_policy("fixed:12,weight=confidence,temperature=0.5"), draws).answer
    assert np.mean(ours == theirs) > 0.999  # weights are rounded to 1/1024: only near ties may differ


def test_curtailed_weighted_votes_answer_as_all_paths_would() -> None:
    draws = random_draws(2)
    whole = run(parse_policy("fixed:12,weight=log_odds", STRAIGHT), draws)
    cut = run(parse_policy("curtailed:cap=12,weight=log_odds", STRAIGHT), draws)
    sums = np.stack([draws.confidences * (draws.codes == code) for code in range(3)])
    settled = (cut.answer == whole.answer) | (cut.stop == 12)
    assert settled.all() and (cut.stop < 12).mean() > 0.3 and sums.any()


@pytest.mark.parametrize("tau", [0.3, 0.6, 0.9])
def test_switched_combining_draws_as_many_paths_as_its_formula_says(tau: float) -> None:
    rng = np.random.default_rng(4)
    n, cap = 40_000, 6
    scores = rng.random((n, 1, cap)).astype(np.float32)  # P(right) is the confidence itself
    right = (rng.random(scores.shape) < scores).astype(np.float32)
    draws = Draws((1 - right).astype(np.int16), correct=right, confidences=scores)
    walks = run(parse_policy(f"switch:{tau},cap={cap}", STRAIGHT), draws)
    below = np.round(tau * 1024) / 1024
    expected = sum(below ** (k - 1) for k in range(1, cap + 1))
    assert walks.stop.mean() == pytest.approx(expected, abs=4 * walks.stop.std() / n**0.5)
    # Above tau a path is right with chance (1 + tau) / 2, the best of six below with tau 6 / 7.
    accuracy = (1 - below**cap) * (1 + below) / 2 + below**cap * below * cap / (cap + 1)
    assert walks.credit is not None
    assert walks.credit.mean() == pytest.approx(accuracy, abs=4 * 0.5 / n**0.5)


def test_a_path_whose_confidence_is_not_known_is_an_ordinary_vote() -> None:
    nan = float("nan")
    # Even where the base rate is above the bar.
    switch = parse_policy(
        "switch:0.6,cap=3", {"confidence": Calibration((0.0, 1.0), (0.2, 0.9), (0.5, 1), 0.8)}
    )
    assert switch.decide(View(["a"], [nan])) == switch.decide(View(["a"], [float("inf")]))
    assert switch.decide(View(["a", "b"], [nan, 1.0])).answer == "b"  # type: ignore[union-attr]
    vote = parse_policy("fixed:3,weight=log_odds", STRAIGHT)
    assert vote.decide(View(["a", "a", "b"], [nan, nan, 1.0])).answer == "a"  # type: ignore[union-attr]


@pytest.mark.parametrize("spec", ["switch:0.9,cap=8", "lead_k:2,weight=log_odds", "switch:0.9,in_flight=4"])
def test_without_a_calibration_it_says_what_makes_one(spec: str) -> None:
    with pytest.raises(PolicyError, match=r"keff analyze RECORD -o plan\.json"):
        parse_policy(spec).decide(View([]))


def test_a_good_path_that_arrives_first_ends_a_switched_vote_in_flight() -> None:
    policy = parse_policy("switch:0.9,cap=4,in_flight=4,order=arrival", STRAIGHT)
    assert isinstance(policy.decide(View(["a"], [0.5])), Sample)
    assert isinstance(policy.decide(View(["a"], [0.95])), Stop)
    draws = random_draws(3)
    seconds = np.random.default_rng(3).random(draws.codes.shape).astype(np.float32)
    walks = run(policy, replace(draws, seconds=seconds))
    assert walks.wait is not None
    good = (draws.confidences[..., :4] >= 0.9) & (draws.codes[..., :4] >= 0)
    first = np.where(good, seconds[..., :4], np.inf).min(axis=2)
    ended = np.minimum(first, seconds[..., :4].max(axis=2))
    assert walks.wait == pytest.approx(ended)


def scored(seed: int = 0, n: int = 300, k: int = 8) -> tuple[Votes, np.ndarray]:
    rng = np.random.default_rng(seed)
    hard = rng.normal(size=(n, 1))
    right = (rng.random((n, k)) < 1 / (1 + np.exp(-hard))).astype(int)
    answers = np.where(right, 0, rng.integers(1, 4, (n, k)))
    return Votes(answers=answers, correct=right), right + 0.7 * rng.normal(size=(n, k))


@pytest.mark.slow
def test_a_replay_calibrates_on_other_questions_and_reads_named_confidences() -> None:
    votes, score = scored()
    votes = Votes(votes.answers, votes.correct, confidences=np.zeros_like(score), named={"judge": score})
    rules = ["fixed:8", "switch:0.7,cap=8,confidence=judge", "fixed:8,weight=log_odds,confidence=judge"]
    rules += ["fixed:8,weight=log_odds", "lead_k:2,cap=8,weight=log_odds,confidence=judge,wave=2"]
    seen = replay(votes, rules, np.random.default_rng(0))
    plain, switched, weighed, constant, waves = seen.policies
    assert switched.mean_paths < 4 and switched.accuracy.value > plain.accuracy.value + 0.05
    assert weighed.accuracy.value > plain.accuracy.value + 0.05
    # A constant says nothing: the vote is the plain one.
    assert constant.accuracy.value == pytest.approx(plain.accuracy.value, abs=1e-3)
    assert waves.mean_paths < 8


@pytest.mark.parametrize(
    ("spec", "says"),
    [("switch:0.9,cap=8", "these records have none"), ("switch:0.9,cap=8,confidence=x", "confidence x")],
)
def test_a_replay_without_the_confidence_is_refused(spec: str, says: str) -> None:
    votes, _ = scored()
    with pytest.raises(PolicyError, match=says):
        replay(votes, [spec], np.random.default_rng(0))


# Sequences of votes; then for thresholds .8 and .95 where the authors' ``BetaStoppingCriteria`` stops (None:
# not within 16), the answer and its probability there: github.com/Pranjal2041/AdaptiveConsistency at 899ab56,
# run with SciPy 1.17 (arXiv 2305.11860).
ADAPTIVE_CONSISTENCY = [
    ("aaaaaaaaaaaaaaaa", (2, "a", 0.875), (4, "a", 0.96875)),
    ("ccaaaaaaaaabcaaa", (2, "c", 0.875), (10, "a", 0.967285156)),
    ("baccacaaaacaaaaa", (10, "a", 0.828125), (16, "a", 0.961593628)),
    ("aabbabaabcbabaab", (2, "a", 0.875), (None, "a", 0.598190308)),
    ("cacccacccbaccbbb", (4, "c", 0.8125), (13, "c", 0.953857422)),
    ("cacabbcbbbcbabcb", (14, "b", 0.806152344), (None, "b", 0.788024902)),
    ("bcabbcaacacacaaa", (5, "b", 0.8125), (None, "a", 0.788024902)),
]


@pytest.mark.parametrize("weight", ["", ",weight=log_odds"])
@pytest.mark.parametrize(("votes", "early", "late"), ADAPTIVE_CONSISTENCY)
def test_adaptive_consistency_is_the_case_of_equal_weights(
    votes: str, early: tuple[int | None, str, float], late: tuple[int | None, str, float], weight: str
) -> None:
    for threshold, (n, answer, sure) in ((0.8, early), (0.95, late)):
        policy = parse_policy(
            f"adaptive_consistency:{threshold},cap=16{weight}", {"confidence": uninformative(0.6)}
        )
        before = [policy.decide(View(votes[:k], [0.5] * k)) for k in range(n or 16)]
        assert all(isinstance(decision, Sample) for decision in before)
        stop = policy.decide(View(votes[: n or 16], [0.5] * 16))
        assert isinstance(stop, Stop)
        assert (stop.answer, stop.weight) == (answer, pytest.approx(sure, abs=1e-9))


nan = float("nan")
# Answers, confidences, temperature; then the answer and its share by ``majority_with_conf`` with a softmax:
# github.com/google-research/google-research, cisc/src/post_processing/aggregators.py at 4c42994 (arXiv
# 2502.06233).
CISC = [
    ("cbcbc", [-1.384, 0.117, -1.661, -0.644, -0.623], 0.2, "b", 0.975744659719),
    ("cbcbc", [-1.384, 0.117, -1.661, -0.644, -0.623], 1.0, "b", 0.628029117476),
    ("cbcba", [-1.285, 0.152, -0.53, -0.67, 0.486], 0.2, "a", 0.83493476836),
    ("cbcba", [-1.285, 0.152, -0.53, -0.67, 0.486], 1.0, "b", 0.402183641441),
    ("bccaabbb", [-0.786, nan, -1.276, -0.783, 0.327, -0.419, 0.886, -0.972], 0.2, "b", 0.942273653099),
    ("bcaccca", [-0.837, -1.021, 1.34, -0.546, -1.71, -0.889, -0.093], 1.0, "a", 0.706567215836),
]


@pytest.mark.parametrize(("votes", "given", "temperature", "answer", "share"), CISC)
def test_cisc_is_the_vote_by_softmax_and_a_case_of_weights(
    votes: str, given: list[float], temperature: float, answer: str, share: float
) -> None:
    n = len(votes)
    stop = parse_policy(f"fixed:{n},weight=confidence,temperature={temperature}").decide(View(votes, given))
    assert isinstance(stop, Stop)
    assert (stop.answer, stop.weight) == (answer, pytest.approx(share, rel=1e-10))
    if any(value != value for value in given):
        return  # without a confidence a path abstains there, and is an ordinary vote here
    at = np.sort(given)
    weights = np.exp((at - at[0]) / temperature)
    held = {"confidence": Calibration(tuple(at), (0.5,) * n, tuple(weights), 0.5)}
    weighed = parse_policy(f"fixed:{n},weight=log_odds", held).decide(View(votes, given))
    assert isinstance(weighed, Stop)
    assert (weighed.answer, weighed.weight) == (answer, pytest.approx(share, abs=1e-3))
