"""What confidences are worth: weights, switched combining, the decision; on scored records and known laws.

``python -m benchmarks.analysis.confidence`` prints the tables of docs/confidence.md: the recorded
reward-model scores, cross-fitted with standard errors; simulated scores of given within-question AUC, with
what the recommended rules need of the paths of the best rule without them at the accuracy of a vote of 4;
noise. ``--bound`` says what any rule could save that knows the law. ``--lengths`` takes the lengths of
recorded paths as scores. ``--speed`` times calibration and replay of 500 x 32 with three scores, in
processor time.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from scipy.special import logsumexp, ndtri

from benchmarks.places import RECORDED
from keff.analysis.decision import Aim, decide
from keff.analysis.decision.chain import candidate_rules
from keff.analysis.decision.confidences import rated_paths, rules_on
from keff.analysis.replay import Replaying, replay
from keff.analysis.walks import expectations, run, with_fitted_confidences
from keff.policy import Policy, confidence_of, parse_policy
from keff.reading.open import open_record
from keff.stats.votes import CONFIDENCE, FloatArray, IntArray, Votes
from keff.stats.voting.calibrate import calibrate, cross_fit, within_auc
from keff.stats.voting.calibration import Calibration
from keff.stats.voting.choose import k_eff_deflection
from keff.stats.voting.draws import CHANCE, WEIGHT, permute_paths

RECORD = RECORDED / "qwen25math_math100_rm.jsonl"
ORDERS = 200
# What people stop by today, with any threshold: at a cap, by the lead, by adaptive consistency.
FIELD = tuple(
    map(
        parse_policy,
        [f"fixed:{k}" for k in range(1, 9)]
        + [f"lead_k:{k},cap={cap}" for k in (2, 3) for cap in range(3, 9)]
        + [f"adaptive_consistency:{sure},cap=8" for sure in (0.8, 0.9, 0.95)],
    )
)
LARGE = 250
"""Of recorded sets with more questions every other one is taken."""
SEED = 7
"""Of the questions of ``bound``."""
JUDGED, HELD_ORDERS = 1_500, 30
"""Questions that a simulated pilot's rules are judged on, and orders of each."""


def recorded() -> Votes | None:
    """Return the votes with reward-model scores, read as keff reads them."""
    if not RECORD.exists():
        return None
    scores = [json.loads(line)["meta"]["rm_score"] for line in RECORD.read_text("utf-8").splitlines()]
    return replace(open_record(RECORD).ballot.votes, confidences=np.array(scores, np.float64))


Outcomes: TypeAlias = tuple[FloatArray, FloatArray]


def outcomes(
    votes: Votes, rules: list[Policy], seed: int, orders: int = ORDERS, held: Calibration | None = None
) -> Outcomes:
    """Return accuracy and paths of each question under each rule [n, C]; cross-fitted where none is held."""
    ready = with_fitted_confidences(votes, rules)
    if held is not None:
        scores = np.asarray(votes.confidences)
        made = {CONFIDENCE + CHANCE: held.chance(scores), CONFIDENCE + WEIGHT: held.weight(scores)}
        ready = replace(votes, named=made)
    draws = permute_paths(ready, max(rule.cap for rule in rules), orders, np.random.default_rng(seed))
    each = [expectations(run(rule, draws), draws, draws.cap) for rule in rules]
    right = np.stack([one.accuracy for one in each if one.accuracy is not None], axis=1)
    return right, np.stack([one.paths for one in each], axis=1)


def on_record(votes: Votes) -> None:
    """Print weighted votes at equal paths, switched combining and K_eff on the recorded scores."""
    print(f"AUC within questions {within_auc(votes, np.asarray(votes.confidences)).text()}")
    for k in (2, 3, 4, 5, 8):
        pair = [parse_policy(f"fixed:{k}"), parse_policy(f"fixed:{k},weight=log_odds")]
        right, _ = outcomes(votes, pair, k)
        gain = right[:, 1] - right[:, 0]
        plain = right[:, 0].mean()
        print(f"K = {k}: plain {plain:.1%}, weighted {gain.mean():+.1%} (se {gain.std() / votes.n**0.5:.1%})")
    specs = ["lead_k:2,cap=8", "fixed:8"]
    specs += [f"switch:{bar},cap=8" for bar in (0.6, 0.7, 0.8, 0.9)]
    specs += [f"switch:{bar},cap=8,else=log_odds" for bar in (0.6, 0.7, 0.8, 0.9)]
    right, paths = outcomes(votes, list(map(parse_policy, specs)), 0)
    for place, spec in enumerate(specs):
        se = (right[:, place] - right[:, 1]).std() / votes.n**0.5
        print(f"{spec}: {right[:, place].mean():.1%} at {paths[:, place].mean():.2f} (se against 8 {se:.1%})")
    chances = cross_fit(votes, np.asarray(votes.confidences), np.random.default_rng(0))[0]
    for k in (1, 2, 4, 8):
        weights = np.maximum(2 * chances[:, :k] - 1, 0.0)
        plain = k_eff_deflection(votes.paths(range(k)), np.ones(weights.shape))
        found = k_eff_deflection(votes.paths(range(k)), weights)
        print(f"K_eff of {k} by deflection: plain {plain.text()}, weighted {found.text()}")


@dataclass(frozen=True)
class Law:
    """Levels of questions are normal; ``frequent`` is the share of one wrong answer, six share the rest."""

    name: str
    mean: float = 0.7
    sd: float = 1.6
    frequent: float = 0.5

    @property
    def wrong(self) -> FloatArray:
        """The chances of the seven wrong answers."""
        return np.array([self.frequent] + [(1 - self.frequent) / 6] * 6)


# One wrong answer is more frequent than the others, as in recorded generations.
USUAL = Law("usual")
LAWS = (
    USUAL,
    Law("diffuse", frequent=0.2),
    Law("easier", 1.7, 1.8),
    Law("easier, diffuse", 1.7, 1.8, 0.2),
)
# Of a score that tells easy questions from hard ones too, logits by logit of the level.
BETWEEN = 0.5


def simulated(
    seed: int, auc: float | None, n: int, k: int = 8, law: Law = USUAL, between: float = BETWEEN
) -> Votes:
    """Return votes of questions of unlike difficulty, with a normal score of this AUC within questions.

    None: scores that differ between questions only, permuted within.
    """
    rng = np.random.default_rng(seed)
    level = rng.normal(law.mean, law.sd, (n, 1))
    right = (rng.random((n, k)) < 1 / (1 + np.exp(-level))).astype(int)
    wrong = rng.choice(np.arange(1, 8), (n, k), p=law.wrong)
    lift = 0.0 if auc is None else lift_of(auc)
    score = lift * right + rng.normal(size=(n, k)) + between * level
    return Votes(np.where(right, 0, wrong), right, confidences=score)


def lift_of(auc: float) -> float:
    """Return by how many standard deviations the score of a right path is higher."""
    return 2**0.5 * float(ndtri(auc))


def paths_at(accuracy: FloatArray, paths: FloatArray, wanted: float) -> float:
    """Return the fewest mean paths at which a mixture of two rules reaches an accuracy."""
    reach = accuracy >= wanted - 1e-12
    best = float(paths[reach].min()) if reach.any() else float("nan")
    for low in np.flatnonzero(~reach):
        for high in np.flatnonzero(reach):
            share = (wanted - accuracy[low]) / (accuracy[high] - accuracy[low])
            best = min(best, float(paths[low] + share * (paths[high] - paths[low])))
    return best


def on_laws(pilots: int, asked: float) -> None:
    """Print what recommended rules need and keep on other questions, for scores of known AUC."""
    for law in LAWS:
        for auc in (0.6, 0.68, 0.76, 0.85, None):
            found = np.array(
                [_judged(simulated(seed, auc, 100, law=law), auc, seed, law, asked) for seed in range(pilots)]
            )
            reads = found[:, 2] > 0
            name = "noise" if auc is None else f"AUC {auc}"
            print(
                f"{law.name}, {name}: the accuracy of a vote of 4 takes {_with_error(found[:, 0])} of the "
                f"paths without, where the score is read {_with_error(found[reads, 0])}; the recommended "
                f"rule takes {_with_error(found[:, 1])} of those of the best mixture without it at its "
                f"accuracy; it reads the score in {reads.sum()} of {pilots}; stated change covers "
                f"{found[:, 3].sum():.0f}; of {asked:.1%} asked {_with_error(found[:, 4])} is kept, "
                f"stated minus delivered {_with_error(100 * found[:, 5])} points"
            )


def _with_error(values: FloatArray) -> str:
    if values.size < 2:
        return "-"
    return f"{values.mean():.3f} (se {values.std(ddof=1) / values.size**0.5:.3f})"


def _judged(
    pilot: Votes, auc: float | None, seed: int, law: Law, asked: float
) -> tuple[float, float, bool, bool, float, float]:
    """Return paths against those of plain rules at the accuracy of 4 and at that of the recommended rule.

    On other questions, by the calibration that the pilot's plan holds. Then whether the rule reads the score
    and its interval covers, the share of the accuracy of 8 paths that is kept, and the stated change minus
    the true one.
    """
    decided = decide(pilot, Aim(retain=asked))
    rule = parse_policy(decided.decision.policy)
    plain = [*candidate_rules(8), parse_policy("fixed:4"), parse_policy("fixed:8")]
    scored = list(rated_paths(pilot, 8).rules)
    others, held = (
        simulated(10_000 + seed, auc, JUDGED, law=law),
        calibrate(pilot, np.asarray(pilot.confidences)),
    )
    right, cost = outcomes(others, [*plain, *scored, rule], seed, HELD_ORDERS, held)
    means, paths = right.mean(axis=0), cost.mean(axis=0)
    without = slice(0, len(plain))
    wanted = float(means[len(plain) - 2])
    at_four = paths_at(means[:-1], paths[:-1], wanted) / paths_at(means[without], paths[without], wanted)
    reached = min(float(means[-1]), float(means[without].max()))
    own = float(paths[-1]) / paths_at(means[without], paths[without], reached)
    change = decided.decision.change.points
    assert change is not None and change.limits is not None
    true = float(means[-1] - means[len(plain) - 1])
    covered = change.limits[0] <= true <= change.limits[1]
    kept = float(means[-1] / means[len(plain) - 1])
    return at_four, own, confidence_of(rule) is not None, covered, kept, change.value - true


def bound(questions: int = 3_000) -> None:
    """Print the paths at the accuracy of a vote of 4 of whoever knows the law, with and without scores.

    And of the candidates of keff, calibrated on these questions, against those that read no score and
    against the rules of the field.
    """
    for law in LAWS:
        for auc in (0.6, 0.68, 0.76):
            votes = simulated(SEED, auc, questions, law=law)
            plain = [*candidate_rules(8), parse_policy("fixed:4"), parse_policy("fixed:8")]
            found = outcomes(votes, [*plain, *rated_paths(votes, 8).rules], 0, 40)
            field = outcomes(votes, list(FIELD), 0, 40)
            four = found[0][:, [len(plain) - 2]]
            own = tuple(values[:, : len(plain)] for values in found)
            blind = _informed(law, auc, questions, seen=False)
            seeing = _informed(law, auc, questions)
            within = _informed(law, auc, questions, between=0)
            print(
                f"{law.name}, AUC {auc}: who knows the law takes {_part(four, seeing, own)} of the paths of "
                f"keff's rules without scores, from scores that say nothing of the level "
                f"{_part(four, within, own)}, from none {_part(four, blind, own)}; keff's rules "
                f"{_part(four, found, own)}, and {_part(four, found, field)} of the field's"
            )


def _part(four: FloatArray, ours: Outcomes, others: Outcomes) -> str:
    """Return which part of others' paths the accuracy of a vote of 4 takes, and its jackknife error."""
    groups = np.arange(len(four)) % 20

    def part(kept: IntArray) -> float:
        wanted = float(four[kept].mean())
        needed = (paths_at(*(each[kept].mean(axis=0) for each in one), wanted) for one in (ours, others))
        return next(needed) / next(needed)

    left_out = np.array([part(np.flatnonzero(groups != group)) for group in range(20)])
    se = float(np.sqrt(19) * left_out.std())
    return f"{part(np.arange(len(four))):.3f} (se {se:.3f})"


@dataclass(frozen=True)
class Known:
    """Chances [rows, k] of the two best answers after each path by a law, and whether the best is right."""

    best: FloatArray
    second: FloatArray
    right: FloatArray

    @property
    def cells(self) -> IntArray:
        """The state in which a stop is decided, after each path: both chances, in steps."""
        high = np.minimum((self.best * 30).astype(np.int64), 29)
        return high * 12 + (self.second * 23.9).astype(np.int64)


def _informed(law: Law, auc: float, n: int, *, seen: bool = True, between: float = BETWEEN) -> Outcomes:
    """Return accuracy and paths [n, m] of who knows the law, for m prices of a path; ``seen``: and scores.

    It holds the exact posterior of each answer, levels and frequent wrong answers integrated out, and stops
    where another path is not worth its price: by backward induction on other questions of the law.
    """
    read = auc if seen else None
    learned = _known(simulated(8, auc, 2 * n, law=law, between=between), law, read, between)
    judged = _known(simulated(SEED, auc, n, law=law, between=between), law, read, between)
    before, cells, (rows, k) = learned.cells, judged.cells, judged.best.shape
    accuracy: list[FloatArray] = []
    paths: list[FloatArray] = []
    for price in np.geomspace(3e-4, 0.3, 70):
        stop, value = np.ones(cells.shape, bool), learned.best[:, -1]
        for drawn in range(k - 2, -1, -1):
            here, best = before[:, drawn], learned.best[:, drawn]
            gain = np.bincount(here, value - best, 360) / np.maximum(np.bincount(here, minlength=360), 1)
            stop[:, drawn] = gain[cells[:, drawn]] <= price
            value = np.where(gain[here] <= price, best, value - price)
        at = stop.argmax(axis=1)
        accuracy.append(judged.right[np.arange(rows), at].reshape(n, k).mean(axis=1))
        paths.append(at.reshape(n, k).mean(axis=1) + 1)
    return np.stack(accuracy, axis=1), np.stack(paths, axis=1)


def _known(votes: Votes, law: Law, auc: float | None, between: float) -> Known:
    """Return what who knows the law holds of each question, in as many orders as it has paths."""
    assert votes.answers is not None and votes.confidences is not None
    k, grid = votes.k, np.linspace(-7, 9, 65)
    prior = -0.5 * np.square((grid - law.mean) / law.sd)
    first = np.argsort(np.random.default_rng(1).random((votes.n, k)), axis=1)
    # Every path comes once in every place: orders drawn at random have errors as large as what is measured.
    order = first[:, np.add.outer(np.arange(k), np.arange(k)) % k].reshape(-1, k)
    codes = np.take_along_axis(np.repeat(votes.answers, k, 0), order, 1)
    score = np.take_along_axis(np.repeat(votes.confidences, k, 0), order, 1)
    rows, every = np.arange(len(codes)), range(8)
    wrongs = np.tile(prior, (rows.size, 1))
    lifts, counts = np.zeros((8, rows.size, grid.size)), np.zeros((rows.size, 8))
    frequent, rare = np.log(law.wrong[:2])
    found = Known(*(np.empty(codes.shape) for _ in range(3)))
    for drawn in range(k):
        if_right, if_wrong = -np.log1p(np.exp(-grid)), -np.log1p(np.exp(grid))
        if auc is not None:
            apart = score[:, drawn, None] - between * grid
            if_right = if_right - 0.5 * np.square(apart - lift_of(auc))
            if_wrong = if_wrong - 0.5 * np.square(apart)
        wrongs = wrongs + if_wrong
        lifts[codes[:, drawn], rows] += if_right - if_wrong
        counts[rows, codes[:, drawn]] += 1
        logs = np.empty((rows.size, 8))
        for a in every:
            others = drawn + 1 - counts[:, a]
            held = [counts[:, d] * frequent + (others - counts[:, d]) * rare for d in every if d != a]
            logs[:, a] = logsumexp(held, axis=0) + logsumexp(wrongs + lifts[a], axis=1)
        chance = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        chance[counts == 0] = 0.0
        ordered = np.sort(chance, axis=1)
        found.best[:, drawn], found.second[:, drawn] = ordered[:, -1], ordered[:, -2]
        tied = chance >= ordered[:, -1:] - 1e-9
        found.right[:, drawn] = tied[:, 0] / tied.sum(axis=1)
    return found


def on_lengths() -> None:
    """Print what the lengths of recorded paths save as confidences, and what random numbers do."""
    for path in sorted(RECORD.parent.glob("boinf_*.jsonl")):
        votes = open_record(path).ballot.votes
        votes = votes.take(np.arange(0, votes.n, 2)) if votes.n > LARGE else votes
        shorter = -np.asarray(votes.tokens, np.float64)
        noise = np.random.default_rng(1).normal(size=shorter.shape)
        parts = [_of_recorded(replace(votes, tokens=None, confidences=one)) for one in (shorter, noise)]
        auc = within_auc(votes, shorter).text()
        print(f"{path.stem}: AUC {auc}, takes {parts[0]:.2f} of the paths, random numbers {parts[1]:.2f}")


def _of_recorded(votes: Votes) -> float:
    """Return the paths at the accuracy of a vote of 4 of all rules, as a part of those that read no score."""
    plain = [*candidate_rules(8), parse_policy("fixed:4"), parse_policy("fixed:8")]
    right, cost = outcomes(votes, [*plain, *rules_on("", 8)], 0, 40)
    means, paths = right.mean(axis=0), cost.mean(axis=0)
    wanted, size = float(means[len(plain) - 2]), len(plain)
    return paths_at(means, paths, wanted) / paths_at(means[:size], paths[:size], wanted)


def speed() -> None:
    """Print the processor time of calibration and replay of 500 x 32 with three scores."""
    votes = simulated(0, 0.7, 500, 32)
    score = np.asarray(votes.confidences)
    rng = np.random.default_rng(1)
    named = {"a": score, "b": score + rng.normal(size=score.shape), "c": rng.normal(size=score.shape)}
    votes = replace(votes, confidences=None, named=named)
    rules = [
        f"{rule},confidence={name}" for name in named for rule in ("switch:0.9", "lead_k:2,weight=log_odds")
    ]
    begun = time.process_time()
    replay(votes, rules, rng, Replaying())
    print(f"calibration and replay of 500 x 32 with three scores: {time.process_time() - begun:.2f} s")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pilots", type=int, default=8)
    parser.add_argument("--asked", type=float, default=0.99, help="share of the accuracy of 8 paths to keep")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--bound", action="store_true")
    parser.add_argument("--lengths", action="store_true")
    asked = parser.parse_args()
    if asked.bound:
        bound()
        return
    if asked.lengths:
        on_lengths()
        return
    if asked.speed:
        speed()
        return
    votes = recorded()
    if votes is None:
        print(f"{RECORD} is not here: no recorded scores")
    else:
        on_record(votes)
    on_laws(asked.pilots, asked.asked)


if __name__ == "__main__":
    main()
