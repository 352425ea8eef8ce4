"""Audits: planted wrong golds are found first, posteriors are calibrated, and the ceiling covers."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.places import RECORDED
from keff.analysis.audit import audit, ceiling
from keff.errors import UsageError
from keff.log import LogInfo, Question
from keff.reading.ballot import ballot
from keff.reading.open import Opening, Record, open_record, reading
from keff.stats.scores import WRONG, posterior_wrong, unsolved_yet


def logs(seed: int, n: int = 200, wrong: float = 0.05, k: int = 8) -> tuple[list[Record], np.ndarray]:
    """Return two branches whose true answers are "t", with a share of gold answers that are "g" instead."""
    rng = np.random.default_rng(seed)
    bad = rng.random(n) < wrong
    theta = rng.beta(1.6, 0.5, n)
    records = []
    for name in ("a", "b"):
        own = np.clip(theta + rng.normal(0, 0.08, n), 0.01, 0.99)
        questions = []
        for i in range(n):
            common = rng.random() < 0.6
            answers = tuple(
                "t"
                if rng.random() < own[i]
                else ("g" if rng.random() < (0.7 if common else 0.3) else f"w{rng.integers(4)}")
                for _ in range(k)
            )
            questions.append(
                Question(f"q{i}", answers, gold="g" if bad[i] else "t", question=f"What is {i}?")
            )
        info = LogInfo(model=name)
        records.append(Record(name, info, ballot(questions, reading(info, Opening()))))
    return records, bad


def test_planted_wrong_golds_come_first() -> None:
    records, bad = logs(0)
    found = audit(records)
    first = [int(each.id[1:]) for each in found.suspects[: int(bad.sum())]]
    assert np.mean(bad[first]) >= 0.8
    top = found.suspects[0]
    assert (top.gold_answer, top.agreed, top.branches, top.question) == (
        "g",
        "t",
        2,
        f"What is {top.id[1:]}?",
    )
    assert top.posterior > 0.5 > found.suspects[-1].posterior
    assert found.score_if_right.value > found.score.value


@pytest.mark.slow
def test_posteriors_are_calibrated_where_rates_are_those_of_the_prior() -> None:
    said, were = [], []
    for seed in range(30):
        rate = float(np.random.default_rng(seed).beta(1, 29))
        records, bad = logs(seed, wrong=rate)
        for each in audit(records).suspects:
            said.append(each.posterior)
            were.append(bad[int(each.id[1:])])
    high = np.array(said) > 0.5
    assert np.mean(were) == pytest.approx(np.mean(said), abs=0.15)
    assert np.mean(np.array(were)[high]) > 0.6 > 0.3 > np.mean(np.array(were)[~high])


def test_a_mirror_image_is_as_likely_as_its_prior() -> None:
    lead = np.array([-1.0] * 90 + [1.0] * 10)
    found = posterior_wrong(lead)
    w = WRONG
    wanted = np.minimum(w * ((1 - w) * 0.9 - w * 0.1) / (1 - 2 * w) / 0.1, 1).mean()
    assert found[-1] == pytest.approx(wanted, rel=1e-6)
    assert found[0] <= w.mean()
    assert w.mean() == pytest.approx(1 / 30, rel=0.02)


def test_equal_answers_that_were_marked_apart_are_said() -> None:
    gold = r"\frac{11+9a}{20}"
    rows = [Question("q0", (r"\frac{9a+11}{20}",) * 6, gold=gold)]
    rows += [Question(f"q{i}", ("1",) * 6, gold="1") for i in range(1, 20)]
    info = LogInfo(model="m")
    found = audit([Record("m", info, ballot(rows, reading(info, Opening())))])
    assert [(each.id, each.equal_under) for each in found.suspects] == [("q0", "math")]
    assert found.score_if_right.value == 1.0 and found.never_right == pytest.approx(0.05)


def test_what_cannot_be_audited_is_refused() -> None:
    info = LogInfo()
    blind = Record("x", info, ballot([Question("a", ("1", "2"))], reading(info, Opening())))
    with pytest.raises(UsageError, match="no gold answers"):
        audit([blind])


@pytest.mark.slow
def test_the_ceiling_covers_what_more_paths_would_solve() -> None:
    rng, hits = np.random.default_rng(3), 0
    for _ in range(100):
        theta = np.where(rng.random(150) < 0.1, 0.0, rng.beta(0.8, 0.8, 150))
        found = ceiling(rng.binomial(6, theta).astype(float), np.arange(150))
        hits += found.lo <= 0.9 <= found.hi
    assert hits >= 88
    assert unsolved_yet(np.array([0.0, 0, 0, 0, 0, 1, 1, 2]))[0] == 3


@pytest.mark.slow
def test_recorded_unequal_golds_are_among_the_first() -> None:
    files = sorted(RECORDED.glob("boinf_math500_*.jsonl"))
    found = audit([open_record(file) for file in files])
    assert [each.id for each in found.suspects[:2]] == ["math500/318", "math500/352"]
    assert all(each.equal_under == "math" for each in found.suspects[:2])
