"""Joint posterior beyond the recorded paths, from simulated votes and predicted accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from keff.analysis.decision.outcomes import RuleOutcomes, outcomes_of, replayed
from keff.analysis.decision.posterior import LEAST_VARIANCE, JointPosterior, RuleDraws, posterior_of
from keff.analysis.decision.prior import DRAWS, generic_ratios
from keff.analysis.money import Rates
from keff.analysis.recorded import DrawnOrders, RecordedPaths, Rows
from keff.policy import Policy, parse_policy
from keff.stats.models.mixture import GENERIC_WEIGHTS, fit_weights, partition_log_law, simulate, vote_counts
from keff.stats.models.plurality_model import Forecaster
from keff.stats.votes import FloatArray, IntArray, Votes

# How many questions of the pilot the generic split of votes is worth.
PSEUDO_QUESTIONS = 10

# Simulated questions in all, at 32 paths, and for each question of the pilot.
SEQUENCES, FEWEST = 6_000, 2

# Of so many questions at most votes are simulated: more would make no difference to a choice.
MOST_QUESTIONS = 3_000


def predicted(
    votes: Votes,
    rules: Sequence[Policy],
    reference: Policy,
    rates: Rates | None,
    seed: int,
) -> JointPosterior:
    """Return the joint posterior of rules that draw more paths than were recorded.

    Paths and changed answers come from simulated questions like the pilot's (a mixture of partition laws),
    the accuracy at the longest cap from ``predict_plurality``: half of the draws
    from its model, in which a wrong answer may be the mode of a question, half from the law that takes no
    shape for granted, so that the interval holds what the pilot leaves open. Every other rule loses the price
    of a flip times its flips against the vote at the longest cap.
    """
    rng = np.random.default_rng(seed)
    longest = max(policy.cap for policy in (*rules, reference))
    full = parse_policy(f"fixed:{longest}")
    everything = (*rules, reference, full)
    short = parse_policy(f"fixed:{votes.k}")
    pilot = posterior_of(
        replayed(votes, (parse_policy("fixed:1"),), short, None, rng),
        np.array([1.0, 0.0]),
        votes.k,
        seed=seed,
    )
    seen = _simulated(votes, everything, rates, rng)
    known = posterior_of(seen, generic_ratios(everything), longest, seed=seed, level=pilot.level)
    last = len(everything) - 2
    if votes.correct is None:
        return _against(known, known.population.loss, known.new.loss, last, None, pilot)
    over_pilot = _forecast(votes, longest, rng)
    loss = known.population.loss.copy()
    loss[:, known.single] = pilot.population.loss[:, pilot.single] + over_pilot
    if reference.spec == f"fixed:{reference.cap}" and reference.cap <= votes.k:
        curve = Forecaster(votes, [reference.cap]).forecasts(0.95)[0]
        loss[:, last] = over_pilot - curve.gain.value
    loss[:, -1] = 0.0
    assert pilot.population.level is not None
    level = np.clip(pilot.population.level + over_pilot - loss[:, last], 0.0, 1.0)
    spread = np.sqrt(LEAST_VARIANCE * known.population.flips / known.groups)
    noise = spread * rng.standard_normal((DRAWS, 1))
    return _against(known, loss, loss + noise - noise[:, [last]], last, level, pilot)


def _forecast(votes: Votes, k: int, rng: np.random.Generator) -> FloatArray:
    """Return draws [S] of the predicted gain of ``k`` paths over the recorded ones."""
    forecaster = Forecaster(votes, [k])
    (shaped,) = forecaster.forecasts(0.95)
    free, free_error = forecaster.unshaped(k)
    unshaped_now, now_error = forecaster.unshaped(votes.k)
    error = float(np.hypot(shaped.gain_error, shaped.between))
    # What both laws share, the measured gain of the recorded paths, is no error of what lies beyond them.
    apart = float(np.hypot(max(free_error**2 - now_error**2, 0.0) ** 0.5, error))
    z, first = rng.standard_normal(DRAWS), rng.random(DRAWS) < 0.5
    return np.where(first, shaped.gain.value + error * z, free - unshaped_now + apart * z)


def _against(
    known: JointPosterior,
    loss: FloatArray,
    new: FloatArray,
    last: int,
    level: FloatArray | None,
    pilot: JointPosterior,
) -> JointPosterior:
    """Return the posterior with the rule at index ``last`` as reference; later rules are dropped."""
    keep = slice(0, last + 1)

    def cut(draws: RuleDraws, values: FloatArray, height: FloatArray | None) -> RuleDraws:
        costs = (None if each is None else each[:, keep] for each in (draws.tokens, draws.dollars))
        loss = (values - values[:, [last]])[:, keep]
        return RuleDraws(height, loss, draws.flips[:, keep], draws.paths[:, keep], *costs)

    luck = None
    if level is not None and pilot.new.level is not None and pilot.population.level is not None:
        luck = level + pilot.new.level - pilot.population.level
    return replace(
        known,
        specs=known.specs[keep],
        population=cut(known.population, loss, level),
        new=cut(known.new, new, luck),
        gain_variance=pilot.gain_variance,
        shown=pilot.shown,
        # The pilot saw the gain of its own paths: its limits lie as far from what is expected here.
        gain_alone=np.outer(pilot.gain_alone[:, -1] - pilot.gain(pilot.single).mean(), np.ones(last + 1))
        + (loss[:, [known.single]] - loss).mean(axis=0)[keep],
        run_variance=np.full(last + 1, pilot.run_variance[-1]),
    )


def _simulated(
    votes: Votes, policies: Sequence[Policy], rates: Rates | None, rng: np.random.Generator
) -> RuleOutcomes:
    """Return the outcomes of policies on simulated questions like the pilot's, with mean tokens per path."""
    if votes.n > MOST_QUESTIONS and rates is None:
        votes = votes.take(np.sort(rng.choice(votes.n, MOST_QUESTIONS, replace=False)))
    longest = max(policy.cap for policy in policies)
    weights = fit_weights(partition_log_law(vote_counts(votes)[0]), PSEUDO_QUESTIONS * GENERIC_WEIGHTS)
    repeats = max(FEWEST, SEQUENCES * 32 // (votes.n * max(longest, 32)))
    draws = simulate(votes, weights, (repeats, longest), rng)
    every: IntArray = np.arange(votes.n, dtype=np.int64)
    orders = DrawnOrders(
        votes, every, np.full_like(every, repeats), longest, rng, [(slice(0, votes.n), draws)]
    )
    rows = Rows(votes.cluster_ids, votes.n_clusters)
    recorded = RecordedPaths(votes, orders, rows, policies[-1], longest, rates=rates)
    return outcomes_of([(recorded, policy) for policy in policies])
