"""Joint posterior with rules that draw more paths than were recorded.

What lies within the record is replayed. What lies beyond is predicted on the same scale: from the vote of all
recorded paths, by what more paths add to it, and by what a rule loses against the vote at its own cap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from keff.analysis.decision.outcomes import outcomes_of
from keff.analysis.decision.posterior import JointPosterior, RuleDraws, posterior_of
from keff.analysis.decision.prior import DRAWS, GENERIC, generic_ratios
from keff.analysis.money import Rates
from keff.analysis.recorded import RandomOrders, RecordedPaths, Rows
from keff.policy import Policy, parse_policy
from keff.records import frozen
from keff.stats.models.mixture import GENERIC_WEIGHTS, fit_weights, partition_log_law, simulate, vote_counts
from keff.stats.models.plurality_model import Forecaster
from keff.stats.votes import FloatArray, IntArray, Votes

# How many questions of the pilot the generic split of votes is worth.
PSEUDO_QUESTIONS = 10

# Simulated questions in all, at 32 paths, and for each question of the pilot.
SEQUENCES, FEWEST = 6_000, 2

# Votes are simulated at least this long: the same ones whatever the cap, up to this one.
LEAST_LENGTH = 32

# Of so many questions at most votes are simulated: more would make no difference to a choice.
MOST_QUESTIONS = 3_000


def extend_posterior(
    replayed: JointPosterior,
    votes: Votes,
    rules: Sequence[Policy],
    beyond: Sequence[Policy],
    reference: Policy,
    rates: Rates | None,
    seed: int,
) -> JointPosterior:
    """Return the posterior of the replayed ``rules``, the rules ``beyond`` the record, and the reference.

    ``replayed`` has the rules and last the reference, or ``fixed:K`` of the recorded K in its place where the
    reference itself lies beyond the record; ``fixed:K`` is there in either case. A rule beyond has the
    accuracy of the vote of all recorded paths, plus the predicted gain of the vote at its own cap, minus the
    usual price of the answers in which it differs from that vote. Its costs and changed answers are those of
    simulated questions like the pilot's (a mixture of partition laws). So what is stated of one rule against
    one reference depends neither on the cap nor on the other candidates.
    """
    full, inside = parse_policy(f"fixed:{votes.k}"), reference.cap <= votes.k
    outside = (*beyond,) if inside else (*beyond, reference)
    rng = np.random.default_rng([seed, 1])
    simulated = _Simulation.of(votes, max(rule.cap for rule in outside), rates, rng)
    # Against a reference beyond the record the changed answers of every rule are simulated.
    first = (parse_policy("fixed:1"),) if inside else tuple(rules)
    law = simulated.posterior((*first, full, *beyond), reference, replayed.level, seed)
    above = simulated.gain_over_record(outside, full, replayed.level, rng, seed)
    places = [law.specs.index(rule.spec) for rule in outside]
    pivot = law.specs.index(replayed.specs[-1])

    def joined(known: FloatArray, predicted: FloatArray) -> FloatArray:
        """Return replayed columns, predicted ones of the rules outside the record, and the reference's."""
        return np.hstack([known[:, :-1], predicted, known[:, -1:]] if inside else [known[:, :-1], predicted])

    def cost(known: FloatArray | None, simulated: FloatArray | None) -> FloatArray | None:
        """Return joined costs; those of simulated rules are added to the replayed reference's."""
        if known is None or simulated is None:
            return None
        return joined(known, known[:, [-1]] + simulated[:, places] - simulated[:, [pivot]])

    old, new = replayed.population, replayed.new
    recorded = replayed.specs.index(full.spec)
    accuracy = joined(-old.loss, above - old.loss[:, [recorded]])
    today = accuracy[:, [-1]]
    flips = law.population.flips
    flips = joined(old.flips, flips[:, places]) if inside else np.delete(flips, len(rules), axis=1)
    noise = np.sqrt(GENERIC.least_variance * flips / replayed.groups) * rng.standard_normal((DRAWS, 1))
    if inside:
        noise = joined(new.loss - old.loss, noise[:, -1 - len(beyond) : -1])
    caps = [rule.cap for rule in (*rules, *outside, *((reference,) if inside else ()))]

    def draws(known: RuleDraws, means: RuleDraws, loss: FloatArray) -> RuleDraws:
        level = None if known.level is None else np.clip(known.level + today[:, 0], 0.0, 1.0)
        paths = cost(known.paths, means.paths)
        assert paths is not None
        costs = cost(known.tokens, means.tokens), cost(known.dollars, means.dollars)
        apart = known.extra_prompt_dollars if inside else means.extra_prompt_dollars
        return RuleDraws(level, loss, flips, np.clip(paths, 1.0, caps), *costs, apart)

    loss, runs = today - accuracy, replayed.run_variance[None]
    of_votes = np.full((1, len(outside)), runs[0, -1])
    alone = replayed.gain_alone
    return replace(
        replayed,
        specs=(*replayed.specs[:-1], *(rule.spec for rule in beyond), reference.spec),
        population=draws(old, law.population, loss),
        new=draws(new, law.new, loss + noise),
        # Of rules beyond the record the pilot shows what the vote of all its paths gains.
        measured=joined(replayed.measured[None], np.full_like(of_votes, replayed.measured[recorded]))[0],
        # The pilot saw the gain of its own paths: the limits of others lie as far from what is expected.
        gain_alone=joined(alone, alone[:, [recorded]] + above.mean(axis=0)),
        run_variance=joined(runs if inside else np.full_like(runs, runs[0, -1]), of_votes)[0],
    )


@frozen
class _Simulation:
    """Simulated votes of questions like a pilot's, on which rules of any cap are replayed."""

    votes: Votes
    orders: RandomOrders
    rates: Rates | None

    @classmethod
    def of(cls, votes: Votes, longest: int, rates: Rates | None, rng: np.random.Generator) -> _Simulation:
        """Return simulated votes of ``longest`` paths, each path with the mean tokens of its question's."""
        if votes.n > MOST_QUESTIONS and rates is None:
            votes = votes.take(np.sort(rng.choice(votes.n, MOST_QUESTIONS, replace=False)))
        longest = max(longest, LEAST_LENGTH)
        weights = fit_weights(partition_log_law(vote_counts(votes)[0]), PSEUDO_QUESTIONS * GENERIC_WEIGHTS)
        repeats = max(FEWEST, SEQUENCES * 32 // (votes.n * longest))
        drawn = simulate(votes, weights, (repeats, longest), rng)
        every: IntArray = np.arange(votes.n, dtype=np.int64)
        orders = RandomOrders(
            votes, every, np.full_like(every, repeats), longest, rng, [(slice(0, votes.n), drawn)]
        )
        return cls(votes, orders, rates)

    def posterior(
        self, rules: Sequence[Policy], reference: Policy, level: float | None, seed: int
    ) -> JointPosterior:
        """Return the posterior of rules by the usual price of changed answers; the first is one path."""
        everything = (*rules, reference)
        rows = Rows(self.votes.cluster_ids, self.votes.n_clusters)
        longest = max(rule.cap for rule in everything)
        paths = RecordedPaths(self.votes, self.orders, rows, reference, longest, rates=self.rates)
        seen = outcomes_of(paths, everything)
        return posterior_of(seen, generic_ratios(everything), longest, seed=seed, level=level)

    def gain_over_record(
        self,
        outside: Sequence[Policy],
        full: Policy,
        level: float | None,
        rng: np.random.Generator,
        seed: int,
    ) -> FloatArray:
        """Return draws [S, m] of the accuracy of rules outside the record minus that of its whole vote.

        Without labels the vote of all recorded paths, too, differs from a longer one by its changed answers.
        """
        caps = sorted({rule.cap for rule in outside})
        gains = None if self.votes.correct is None else _gains(self.votes, caps, rng)
        above = np.empty((DRAWS, len(outside)))
        for cap in caps:
            own = [place for place, rule in enumerate(outside) if rule.cap == cap]
            rules = (parse_policy("fixed:1"), full, *(outside[place] for place in own))
            loss = self.posterior(rules, parse_policy(f"fixed:{cap}"), level, seed).population.loss
            gain = loss[:, 1] if gains is None else gains[cap]
            above[:, own] = gain[:, None] - loss[:, 2:-1]
        return above


def _gains(votes: Votes, caps: Sequence[int], rng: np.random.Generator) -> dict[int, FloatArray]:
    """Return draws [S] of the predicted gain of the vote at each cap over that of the recorded paths.

    Half of the draws are from the answer model, in which a wrong answer may be the mode of a question, half
    from the law that takes no shape for granted, so that the interval holds what the pilot leaves open.
    """
    forecaster = Forecaster(votes, caps)
    z, shaped = rng.standard_normal(DRAWS), rng.random(DRAWS) < 0.5
    unshaped_now, now_error = forecaster.free_gain(votes.k)
    gains: dict[int, FloatArray] = {}
    for cap, forecast in zip(caps, forecaster.forecasts(0.95), strict=True):
        error = float(np.hypot(forecast.gain_error, forecast.between))
        free, free_error = forecaster.free_gain(cap)
        # What both laws share, the measured gain of the recorded paths, is no error of what lies beyond them.
        free_error = float(np.hypot(max(free_error**2 - now_error**2, 0.0) ** 0.5, error))
        gains[cap] = np.where(shaped, forecast.gain.value + error * z, free - unshaped_now + free_error * z)
    return gains
