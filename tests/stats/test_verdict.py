"""The verdict: its algebra against Monte Carlo, and what it says of workloads whose gain is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

import keff
from keff.analysis.recommend import Aim
from keff.stats.plurality import plurality_at_k
from keff.stats.verdict import Belief, Verdict, judge_voting
from keff.stats.votes import Votes

pytestmark = pytest.mark.slow

MIXED = Belief(np.array([0.3, 0.7]), np.array([-0.01, 0.04]), np.array([0.05, 0.02]))


def drawn(belief: Belief, size: int, rng: np.random.Generator) -> np.ndarray:
    part = rng.choice(belief.weight.size, size, p=belief.weight)
    return belief.mean[part] + belief.sd[part] * rng.standard_normal(size)


def test_a_mixture_agrees_with_its_own_draws() -> None:
    gains = drawn(MIXED, 400_000, np.random.default_rng(0))
    assert MIXED.expected == pytest.approx(gains.mean(), abs=3e-4)
    assert MIXED.above(0.01) == pytest.approx(np.mean(gains > 0.01), abs=3e-3)
    assert MIXED.excess(0.005) == pytest.approx(np.maximum(gains - 0.005, 0).mean(), abs=3e-4)
    assert MIXED.quantile(0.1) == pytest.approx(np.quantile(gains, 0.1), abs=1e-3)
    for share in (1e-6, 0.025, 0.5, 0.975, 1 - 1e-6):
        assert 1 - MIXED.above(MIXED.quantile(share)) == pytest.approx(share, abs=1e-12)


def test_the_posterior_is_that_of_draws_near_the_measurement() -> None:
    """Draw gains and measurements, keep those measured near .02: their gains are the posterior."""
    rng = np.random.default_rng(1)
    gains = drawn(MIXED, 2_000_000, rng)
    near = gains[np.abs(gains + 0.03 * rng.standard_normal(gains.size) - 0.02) < 0.001]
    posterior = MIXED.updated(0.02, 0.03)
    assert posterior.expected == pytest.approx(near.mean(), abs=1e-3)
    assert posterior.above(0.0) == pytest.approx(np.mean(near > 0), abs=0.01)


def leaning(right: float, n: int, rng: np.random.Generator, k: int = 8) -> Votes:
    """Four answers; the right one is favoured in a share ``right`` of the questions, else a wrong one."""
    lean = np.full((n, 4), 0.5)
    lean[np.arange(n), np.where(rng.random(n) < right, 0, 1)] += 2.0
    shares = rng.standard_gamma(lean)
    codes = (rng.random((n, k, 1)) > (shares / shares.sum(1, keepdims=True)).cumsum(1)[:, None, :-1]).sum(2)
    return Votes(codes, (codes == 0).astype(np.int64))


SHARED = 0.2


def hashes(n: int, rng: np.random.Generator, k: int = 8) -> Votes:
    """Right programs seldom share a hash, and wrong ones as often: voting hurts, from 23% to about 18%."""
    right = rng.random((n, k)) < rng.beta(0.5, 1.7, n)[:, None]
    alone = np.where(right, 100, 10) + np.arange(k)
    meets = rng.random((n, k)) < np.where(right, SHARED, 0.2)
    return Votes(np.where(meets, np.where(right, 0, 1), alone), right.astype(np.int64))


def gain(make: Callable[..., Votes]) -> float:
    curve = plurality_at_k(make(1500, np.random.default_rng(9), k=32))
    return float(curve[31] - curve[0])


def verdicts(make: Callable[..., Votes], runs: int = 40) -> Counter[str]:
    rng = np.random.default_rng(2)
    return Counter(judge_voting(make(50, rng), 32).verdict for _ in range(runs))


def misled(n: int, rng: np.random.Generator, k: int = 8) -> Votes:
    return leaning(0.02, n, rng, k)


def hardly_misled(n: int, rng: np.random.Generator, k: int = 8) -> Votes:
    return leaning(0.17, n, rng, k)


def late(n: int, rng: np.random.Generator, k: int = 8) -> Votes:
    """Two answers, right with chance .4, .6 or .95: eight paths gain nothing yet, and 32 lose 5 points."""
    right = np.where(rng.random(n) < 0.6, np.where(rng.random(n) < 0.31, 0.6, 0.4), 0.95)
    codes = (rng.random((n, k)) > right[:, None]).astype(np.int64)
    return Votes(codes, 1 - codes)


@pytest.mark.parametrize(
    ("make", "least", "most", "allowed"),
    # 5% and 20% of 40, and two standard errors more.
    [
        (misled, -0.06, -0.04, 4),
        (hashes, -0.07, -0.03, 4),
        (late, -0.08, -0.04, 4),
        (hardly_misled, -0.03, -0.01, 13),
    ],
)
def test_seldom_sample_where_voting_hurts(
    make: Callable[..., Votes], least: float, most: float, allowed: int
) -> None:
    assert least < gain(make) < most
    assert verdicts(make)["sample"] <= allowed


def test_sample_where_voting_helps() -> None:
    def helps(n: int, rng: np.random.Generator, k: int = 8) -> Votes:
        return leaning(0.95, n, rng, k)

    assert gain(helps) > 0.08
    assert verdicts(helps)["sample"] >= 33


def test_a_pilot_of_hashes_knows_that_it_does_not_know_what_comes_after_it() -> None:
    found = judge_voting(hashes(200, np.random.default_rng(3)), 32)
    assert found.verdict != "sample"
    assert found.most_paths == 8
    assert found.gain.lo < gain(hashes) < found.gain.hi
    # So nothing deeper than the pilot is recommended, whatever is asked.
    settings = keff.Settings(aim=Aim(retain=0.999))
    assert keff.analyze(hashes(200, np.random.default_rng(3)), settings).recommendation.k <= 8


def test_a_loss_is_seen_with_enough_questions() -> None:
    found = judge_voting(misled(400, np.random.default_rng(3)), 32)
    assert found.verdict == "do not vote"
    assert found.chance_positive < 0.1
    assert found.gain.lo < gain(misled) < found.gain.hi


def test_a_pilot_too_small_says_what_would_do() -> None:
    found = judge_voting(leaning(0.5, 20, np.random.default_rng(4)), 32)
    assert found.verdict == "pilot too small"
    assert found.questions_needed > 20
    assert str(found.questions_needed) in found.reason
    assert judge_voting(leaning(0.5, 4, np.random.default_rng(4)), 32).questions_needed == 50


def test_what_cannot_be_judged() -> None:
    answers, right = np.zeros((20, 4), np.int64), np.ones((20, 4), np.int64)
    assert judge_voting(Votes(answers, None)).verdict == "sample"
    assert judge_voting(Votes.from_correct(right)).verdict == "pilot too small"
    assert judge_voting(Votes(np.full((20, 4), -1), None)).verdict == "single path"
    assert judge_voting(Votes(np.tile(np.arange(4), (20, 1)), None)).verdict == "single path"
    assert judge_voting(Votes(answers, right)).verdict == "single path"
    assert judge_voting(Votes(answers[:, :1], right[:, :1])).gain is None
    assert judge_voting(Votes(answers, right), 1) == Verdict(
        "single path", None, None, None, None, "a cap of one path is no vote"
    )
    with pytest.raises(ValueError, match="cap"):
        judge_voting(Votes(answers, right), 0)
