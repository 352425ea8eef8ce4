"""Every statistic on every recorded file of real generations."""

import json
import math

import numpy as np
import pytest

from keff.stats.intervals import interval_c, majority_fits
from keff.stats.models.betabinomial import majority_at_k
from keff.stats.votes import Votes
from keff.stats.voting.choose import k_eff, k_eff_block
from keff.stats.voting.correlation import agreement, anova_c, pearson_c, pooled_c
from keff.stats.voting.plurality import flip, plurality_at_k, plurality_share

pytestmark = pytest.mark.slow


def read(path):
    """Read a record in the one-line-per-question form, trimmed to its shortest row."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    k = min(len(row["all_answers"]) for row in rows)
    codes, correct = np.full((len(rows), k), -1), np.zeros((len(rows), k), int)
    for i, row in enumerate(rows):
        names = {}
        for j, answer in enumerate(row["all_answers"][:k]):
            if answer not in (None, ""):
                codes[i, j] = names.setdefault(answer, len(names))
                right = row["all_correct"][j] if row.get("all_correct") else answer == row["gold_answer"]
                correct[i, j] = int(right)
    return Votes(codes, correct)


def test_every_record_gives_sound_numbers(recorded):
    assert recorded
    for path in recorded:
        votes = read(path)
        c = interval_c(votes)
        assert c.lo <= c.value <= c.hi, path.name
        assert c.lo <= anova_c(votes) <= c.hi
        assert k_eff_block(votes) == pytest.approx(float(k_eff(votes.k, pooled_c(votes))), rel=1e-9)
        assert abs(pearson_c(votes)[0] - pooled_c(votes)) < 0.1 or votes.n < 50 or "mmlupro" in path.name
        assert 0 <= agreement(votes) <= 1
        assert majority_at_k(votes)[0] == pytest.approx(votes.p, abs=1e-12)
        fits = majority_fits(votes)
        lo, hi = fits.majority_interval(fits.majority(32)[:, -1], 32)
        assert 0 <= lo <= hi <= 1


def test_plurality_on_real_records(recorded):
    for path in recorded[::6]:
        votes = read(path)
        plurality, flips = plurality_at_k(votes), flip(votes)
        assert plurality[0] == pytest.approx(votes.p, abs=1e-12)
        assert (np.abs(plurality - plurality[-1]) <= flips + 1e-12).all()
        assert (np.diff(plurality_share(votes)) <= 1e-12).all()


def test_plurality_at_k_predicts_the_vote_of_real_subsets(recorded):
    """Splitting the 80 paths of a real record into ten disjoint eights estimates plurality@8 too."""
    path = next(path for path in recorded if path.name.startswith("boinf_gpqa"))
    votes = read(path)
    rng = np.random.default_rng(0)
    order = rng.permuted(np.tile(np.arange(votes.k), (votes.n, 1)), axis=1)
    codes = np.take_along_axis(votes.answers, order, axis=1)
    correct = np.take_along_axis(votes.correct, order, axis=1)
    ends = [
        plurality_at_k(Votes(codes[:, start : start + 8], correct[:, start : start + 8]))[-1]
        for start in range(0, votes.k - 7, 8)
    ]
    assert plurality_at_k(votes)[7] == pytest.approx(
        np.mean(ends), abs=4 * np.std(ends) / math.sqrt(len(ends))
    )
