"""Confidences in the decision: which of them are informative, and candidate rules that read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from keff.analysis.decision.posterior import JointPosterior
from keff.analysis.money import Rates
from keff.analysis.results.decision import ConfidenceWorth, ReliabilityPoint
from keff.analysis.walks import chances_of
from keff.policy import Policy, confidence_of, parse_policy
from keff.policy.spec import MAX_CAP
from keff.records import Interval, frozen
from keff.stats.votes import CONFIDENCE, RATING_SECONDS, FloatArray, Votes
from keff.stats.voting.calibrate import informs, within_auc

# Chances at which a path alone is good enough: between neighbours the frontier is flat.
BARS = (0.6, 0.7, 0.8, 0.9, 0.95)

# ``k`` of ``budget:k,b=8`` on weighted votes, and its cap at most: sums of weights need not be whole, so
# boundaries that are one rule for counts are several here.
BOUNDARIES = ((1.05, 5), (1.15, 5), (1.25, 6), *((k, MAX_CAP) for k in (1.2, 1.4, 1.86, 2.73)))

# The same that give up below a mean chance: 4 to 8% of the paths where simulated scores differ between
# questions as well, 2% on recorded lengths. Of 418 such rules those that some of eight laws choose save the
# others no more than .002 beyond these.
GIVING_UP = ((1.05, 5, 0.4), (1.1, 6, 0.4), (1.25, 6, 0.4), (1.4, MAX_CAP, 0.3), (1.86, MAX_CAP, 0.3))

# An AUC that is surely no further from one half carries nothing: at 0.6 weights save 2 to 8% of the paths
# that a vote of 4 takes, and no rule at all more than about 10% (docs/confidence.md).
LITTLE = 0.6

# Groups of equal size in which chances are held against what is right.
GROUPS = 10

# A gain whose posterior is above 0 with this probability is said to pay.
PAYS = 0.975


@frozen
class RatedPaths:
    """Confidences of a record: how informative each is, and candidate rules on the informative ones.

    ``flights`` keep paths in flight.
    """

    worth: tuple[ConfidenceWorth, ...]
    rules: tuple[Policy, ...] = ()
    flights: tuple[Policy, ...] = ()


def informative(votes: Votes) -> bool:
    """Return whether some confidence of labelled votes tells right paths from wrong ones."""
    if votes.correct is None:
        return False
    return any(informs(within_auc(votes, given), len(votes.rated)) for given in votes.rated.values())


def rated_paths(votes: Votes, cap: int, rates: Rates | None = None) -> RatedPaths:
    """Return the informative confidences of labelled votes, and candidate rules on them up to ``cap`` paths.

    A confidence whose AUC may be one half has no rules: none would be different from a plain vote.
    """
    if votes.correct is None or votes.answers is None:
        return RatedPaths(())
    worth: list[ConfidenceWorth] = []
    rules: list[Policy] = []
    flights: list[Policy] = []
    for name, given in votes.rated.items():
        auc = within_auc(votes, given)
        tells = informs(auc, len(votes.rated))
        nothing = auc.limits is not None and max(auc.limits[1], 1 - auc.limits[0]) <= LITTLE
        spent = votes.named.get(RATING_SECONDS) if name == CONFIDENCE else None
        priced = rates.rating if name == CONFIDENCE and rates is not None else None
        worth.append(
            ConfidenceWorth(
                name,
                auc,
                False if nothing and not tells else None,
                None,
                None,
                sign=-1 if tells and auc.value < 0.5 else 1,
                unknown=int(np.count_nonzero(~np.isfinite(given) & (votes.answers >= 0))),
                reliability=reliability(votes, name) if tells else (),
                rating_seconds=None if spent is None or np.isnan(spent).all() else float(np.nanmean(spent)),
                rating_dollars=None if priced is None else float(priced.mean()),
            )
        )
        if tells and cap > 1:
            named = "" if name == CONFIDENCE else f",confidence={name}"
            rules += rules_on(named, cap)
            flights += _in_flight_rules(named, cap)
    return RatedPaths(tuple(worth), tuple(rules), tuple(flights))


def rules_on(named: str, cap: int) -> list[Policy]:
    """Return the candidates that read a confidence; ``named`` is its option in a policy string, or empty."""
    specs = [f"switch:{bar},cap={cap}{named},else=log_odds" for bar in BARS]
    specs.append(f"switch:{BARS[2]},cap={cap}{named}")
    weighted = [f"budget:{k},b=8,cap={min(cap, most)}" for k, most in BOUNDARIES if k < cap]
    weighted += [f"budget:{k},b=8,cap={min(cap, most)},give_up={p}" for k, most, p in GIVING_UP if k < cap]
    weighted += [f"lead_k:2,cap={cap}"]
    weighted += [f"curtailed:cap={cap}"] * (cap > 3)
    return [parse_policy(spec) for spec in [*specs, *(f"{rule},weight=log_odds{named}" for rule in weighted)]]


def _in_flight_rules(named: str, cap: int) -> list[Policy]:
    """Return the confidence rules with paths in flight, which are faster than one path at a time."""
    short = max(5 * cap // 8, 2)
    shapes = sorted({(cap, cap), (cap, max(cap // 2, 1)), (min(short, cap), min(short, cap))})
    return [
        parse_policy(f"switch:{bar},cap={most}{named},else=log_odds,in_flight={width},order=arrival")
        for bar in BARS[1:4]
        for most, width in shapes
    ]


def confidence_worths(
    worth: Sequence[ConfidenceWorth], posterior: JointPosterior
) -> tuple[ConfidenceWorth, ...]:
    """Return each confidence's gain in accuracy at equal cost, from the joint posterior.

    Against the mixture of two rules that read none with as many paths on average and the least loss.
    """
    rules: dict[str | None, list[int]] = {}
    for place, spec in enumerate(posterior.specs if worth else ()):
        rules.setdefault(confidence_of(parse_policy(spec)), []).append(place)
    return tuple(_confidence_worth(found, posterior, rules) for found in worth)


def _confidence_worth(
    found: ConfidenceWorth, posterior: JointPosterior, rules: Mapping[str | None, Sequence[int]]
) -> ConfidenceWorth:
    if found.pays is False or found.name not in rules or posterior.level is None:
        return found
    means = posterior.population.loss.mean(axis=0)
    gains = {place: _gain(posterior, place, rules[None], means) for place in rules[found.name]}
    best = max(gains, key=lambda place: float(gains[place].mean()))
    gain = gains[best]
    lo, hi = np.quantile(gain, [0.025, 0.975]).tolist()
    interval = Interval(float(gain.mean()), lo, hi, "posterior, cross-fitted, at equal mean paths")
    pays = True if np.mean(gain > 0) >= PAYS else None
    return replace(found, pays=pays, gain_at_equal_cost=interval, policy=posterior.specs[best])


def _gain(posterior: JointPosterior, rule: int, plain: Sequence[int], means: FloatArray) -> FloatArray:
    """Return posterior draws [S] of a rule's accuracy minus a plain rule's at equal mean paths.

    ``means`` [C] are those of the losses: a mixture's is that of the means, so only the best one is made.
    """
    loss, paths = posterior.population.loss, posterior.paths
    below = [place for place in plain if paths[place] <= paths[rule]] or [min(plain, key=paths.__getitem__)]
    alone = min(below, key=means.__getitem__)
    mixtures = [(alone, alone, 0.0)]
    for high in set(plain) - set(below):
        mixtures += [(low, high, (paths[rule] - paths[low]) / (paths[high] - paths[low])) for low in below]
    low, high, share = min(mixtures, key=lambda m: float((1 - m[2]) * means[m[0]] + m[2] * means[m[1]]))
    return np.asarray((1 - share) * loss[:, low] + share * loss[:, high] - loss[:, rule], np.float64)


def reliability(votes: Votes, name: str) -> tuple[ReliabilityPoint, ...]:
    """Return the reliability diagram: mean predicted chance and share right, in equally large groups."""
    rated = np.isfinite(votes.rated[name]) & (votes.answered() >= 0)
    chances, right = chances_of(votes, name)[rated], votes.scored()[rated]
    order = np.argsort(chances, kind="stable")
    return tuple(
        ReliabilityPoint(float(chances[part].mean()), float(right[part].mean()), part.size)
        for part in np.array_split(order, GROUPS)
        if part.size
    )
