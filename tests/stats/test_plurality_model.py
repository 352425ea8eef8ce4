"""The answer model: its credit by enumeration, its forecasts on simulated items whose truth is known."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from keff.stats.models import answer_model
from keff.stats.models.plurality_model import predict_plurality
from keff.stats.votes import Votes
from keff.stats.voting.plurality import plurality_at_k


def test_likelihood_tells_scattered_from_agreeing_answers() -> None:
    w = np.array([6])
    agree = answer_model.likelihood(np.array([2]), w, np.array([1]))[0]
    scatter = answer_model.likelihood(np.array([2]), w, np.array([6]))[0]
    assert np.all(np.diff(agree[8]) < 0)
    assert np.all(np.diff(scatter[8]) > 0)
    assert np.argmax(agree[:, 0]) == np.abs(answer_model.THETA - 0.25).argmin()


def draw(n: int, k: int, law: tuple[float, float], g: float, rng: np.random.Generator) -> Votes:
    """Draw items from the model: theta beta, wrong answers by a Chinese restaurant process."""
    theta = rng.beta(*law, n)
    correct = (rng.random((n, k)) < theta[:, None]).astype(np.int64)
    answers = np.zeros((n, k), np.int64)
    for i in range(n):
        seen: list[int] = []
        for j in np.flatnonzero(correct[i] == 0):
            new = rng.random() < g / (g + len(seen))
            seen.append(max(seen, default=0) + 1 if new else seen[rng.integers(len(seen))])
            answers[i, j] = seen[-1]
    return Votes(answers, correct)


def truth(law: tuple[float, float], g: float, ks: list[int]) -> NDArray[np.float64]:
    return plurality_at_k(draw(1500, max(ks), law, g, np.random.default_rng(1)))[np.array(ks) - 1]


@pytest.mark.slow
@pytest.mark.parametrize(("law", "g"), [((0.9, 0.9), 4.0), ((1.2, 2.0), 15.0), ((2.0, 1.0), 0.2)])
def test_recovers_the_gain_of_its_own_model(law: tuple[float, float], g: float) -> None:
    rng = np.random.default_rng(7)
    eight, *later = truth(law, g, [8, 16, 32])
    pilots = [predict_plurality(draw(400, 8, law, g, rng), [16, 32]) for _ in range(4)]
    for j, target in enumerate(later):
        gains = np.array([p[j].gain.value for p in pilots])
        # Truth and mean carry about half a point of simulation error each.
        assert gains.mean() == pytest.approx(target - eight, abs=0.012)
        assert all(p[j].gain.lo <= target - eight + 0.005 <= p[j].gain.hi + 0.01 for p in pilots)


def test_matters_that_wrong_answers_scatter() -> None:
    """The same correctness predicts growth when wrong answers scatter, and none when they agree."""
    rng = np.random.default_rng(5)
    correct = (rng.random((150, 8)) < rng.beta(2, 3, 150)[:, None]).astype(np.int64)
    agreeing = predict_plurality(Votes(1 - correct, correct), [32])[0]
    own = np.where(correct > 0, 0, 1 + np.arange(8))
    scattered = predict_plurality(Votes(own, correct), [32])[0]
    assert agreeing.gain.value < 0.01
    assert scattered.gain.value > 0.02
    assert scattered.plurality.value > agreeing.plurality.value + 0.2


def test_within_the_pilot_it_is_the_exact_average() -> None:
    votes = draw(60, 9, (1.5, 1.0), 2.0, np.random.default_rng(2))
    exact = plurality_at_k(votes)
    forecasts = predict_plurality(votes, [1, 4, 9, 10])
    for forecast in forecasts[:3]:
        assert forecast.plurality.value == pytest.approx(exact[forecast.k - 1], abs=1e-12)
        assert forecast.gain.value == pytest.approx(exact[forecast.k - 1] - exact[-1], abs=1e-12)
        assert forecast.plurality.method == "subsets"
    assert forecasts[3].plurality.method == "answer_model"
    assert forecasts[3].plurality.value == pytest.approx(exact[-1] + forecasts[3].gain.value, abs=1e-12)
    assert abs(forecasts[3].gain.value) < 0.02


def test_curve_is_smooth_and_intervals_hold_the_value() -> None:
    votes = draw(80, 8, (1.0, 1.0), 6.0, np.random.default_rng(4))
    curve = predict_plurality(votes, list(range(8, 65, 4)))
    steps = [b.gain.value - a.gain.value for a, b in pairwise(curve)]
    assert all(-1e-9 < later < earlier for earlier, later in pairwise(steps))
    for forecast in curve:
        for estimate in (forecast.plurality, forecast.gain):
            assert estimate.lo is not None
            assert estimate.hi is not None
            assert estimate.lo <= estimate.value <= estimate.hi


def test_clusters_widen_the_intervals() -> None:
    votes = draw(60, 8, (1.0, 1.0), 6.0, np.random.default_rng(4))
    paired = Votes(votes.answers, votes.correct, clusters=np.arange(60) // 2)
    for alone, together in zip(*(predict_plurality(v, [4, 32]) for v in (votes, paired)), strict=True):
        assert together.plurality.hi - together.plurality.lo > alone.plurality.hi - alone.plurality.lo


@pytest.mark.parametrize("answer", [0, 1, -1])
def test_unanimous_pilots(answer: int) -> None:
    """All right, all wrong alike, or all abstaining: no gain, and a level interval with a width."""
    shape = (40, 8)
    votes = Votes(np.full(shape, answer), np.full(shape, int(answer == 0)))
    level = predict_plurality(votes, [32])[0]
    assert level.plurality.value == pytest.approx(float(answer == 0), abs=0.01)
    assert 0.05 < level.plurality.hi - level.plurality.lo < 0.15
    assert abs(level.gain.value) < 0.01
    assert np.isfinite([level.gain.lo, level.gain.hi]).all()


def test_abstentions_slow_the_vote() -> None:
    """With half of the paths silent, 16 paths are worth about 8 that all answer."""
    rng = np.random.default_rng(9)
    full = draw(1200, 8, (1.2, 1.4), 8.0, rng)
    silent = rng.random((1200, 8)) < 0.5
    thinned = Votes(np.where(silent, -1, full.answered()), np.where(silent, 0, full.scored()))
    forecast = predict_plurality(thinned, [16])[0]
    assert forecast.plurality.value == pytest.approx(plurality_at_k(full)[-1], abs=0.02)
    assert forecast.gain.value > 0.04


def recorded_votes(path: Path) -> Votes:
    with path.open() as lines:
        rows = [json.loads(line) for line in lines]
    k = min(len(row["all_answers"]) for row in rows)
    codes = [{a: i for i, a in enumerate(dict.fromkeys(row["all_answers"]))} for row in rows]
    answers = [
        [seen[a] if a else -1 for a in row["all_answers"][:k]] for seen, row in zip(codes, rows, strict=True)
    ]
    correct = np.array([row["all_correct"][:k] for row in rows])
    return Votes(np.array(answers), correct * (np.array(answers) >= 0))


@pytest.mark.slow
def test_nearer_than_no_gain_on_recorded_runs(data: Path) -> None:
    """Half of the items and 8 paths of each: the gain to 32 paths, against predicting none."""
    names = (
        "boinf_aime2024_Phi-4-reasoning",
        "boinf_aime2024_NVIDIA-Nemotron-Nano-9B-v2",
        "renze_comprehensive-100_llama-2-7b-chat_chain_of_thought",
        "renze_sat-en-100_gpt-35-turbo_chain_of_thought",
    )
    rng = np.random.default_rng(0)
    for name in names:
        votes = recorded_votes(data / "recorded" / f"{name}.jsonl")
        curve = plurality_at_k(votes)
        gain, errors = curve[31] - curve[7], []
        for _ in range(6):
            rows = votes.take(rng.choice(votes.n, votes.n // 2, replace=False))
            pilot = rows.paths(rng.choice(votes.k, 8, replace=False))
            errors.append(predict_plurality(pilot, [32])[0].gain.value - gain)
        assert np.sqrt(np.mean(np.square(errors))) < 0.8 * abs(gain)


@pytest.mark.parametrize(
    ("votes", "match"),
    [
        (Votes.from_correct([[1, 0], [0, 1]]), "no answers"),
        (Votes(np.zeros((2, 2), np.int64), None), "gold"),
    ],
)
def test_bad_input(votes: Votes, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        predict_plurality(votes, [4])
