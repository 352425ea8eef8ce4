"""The paper's Adaptive-K on one record: K* by Algorithm 1, and the plurality that K* paths keep."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from keff.analysis.decision import Aim, DecisionResult
from keff.analysis.decision.figures import Figures
from keff.analysis.results.adaptive_k import AdaptiveKAdvice, judged
from keff.analysis.results.estimates import KStar
from keff.errors import UsageError
from keff.policy import Policy, parse_policy
from keff.stats.votes import Votes
from keff.stats.voting.choose import CLIP, k_star, pilot_cost
from keff.stats.voting.correlation import pooled_c


def check(votes: Votes, path: str) -> None:
    """Raise UsageError for a record without labels, or of a single path or question: it gives no K*."""
    if votes.correct is None:
        raise UsageError(
            f"{path}: Adaptive-K needs gold answers, which only a labelled pilot has; without them leave out "
            "--rule, and keff decides from the answers alone"
        )
    if votes.k < 2 or votes.n < 2:
        raise UsageError(
            f"{path} has {votes.n} questions x {votes.k} paths: Adaptive-K needs at least two of each "
            "(the paper: keff pilot --k 4)"
        )


def rule_of(star: KStar) -> Policy:
    """Return the rule that draws K* paths."""
    return parse_policy(f"fixed:{star.paper}")


def adaptive_k(votes: Votes, star: KStar, decided: DecisionResult, aim: Aim) -> AdaptiveKAdvice:
    """Return K*, what it keeps and costs, and whether to follow it, against the decision's own reference.

    ``decided`` has the rule beside its candidates.
    """
    rule, known = rule_of(star), decided.posterior
    figures, reference = None, parse_policy(decided.decision.reference)
    drawn, longest = float(reference.cap), max(star.paper, reference.cap)
    if known is not None:
        last = len(known.specs) - 1
        # The reference is the last one, whose figures against itself have no width.
        figures = Figures(known, last if rule.spec == known.specs[last] else known.specs.index(rule.spec))
        drawn = float(known.paths[last])
    cost = pilot_cost(star.paper, drawn, votes.k, votes.n * votes.k)
    return judged(
        AdaptiveKAdvice(
            policy=rule.spec,
            k_star=star.paper,
            lo=min(star.lo, star.paper),
            hi=max(star.hi, star.paper),
            reference=drawn,
            kept=figures and figures.kept(aim),
            accuracy=figures and figures.accuracy(),
            reference_accuracy=figures and replace(figures, rule=figures.last).accuracy(),
            measured=longest <= votes.k,
            pilot_paths=votes.n * votes.k,
            net_cost=cost.net_cost,
            repaid_after=cost.repaid_after,
            cost_at_1000=cost.cost_at_1000,
            notes=tuple(_notes(votes, star)),
        ),
        decided.decision,
        aim.share,
    )


def _notes(votes: Votes, star: KStar) -> list[str]:
    """Return where Algorithm 1 replaced the measured c, or the formula's K."""
    c = pooled_c(votes)
    if np.isnan(c):
        which = "Every" if votes.p > 0 else "No"
        return [
            f"{which} path of the pilot was right, so c cannot be measured and K* is K_max = {star.k_max}: "
            "check the gold answers with keff read."
        ]
    told: list[str] = []
    if c < CLIP[0]:
        about = "no sign of" if c <= 0 else "hardly any"
        told.append(
            f"The measured c = {c:.3f} shows {about} correlation: the rule takes c = {CLIP[0]:g} instead."
        )
    elif c > CLIP[1]:
        told.append(f"The measured c = {c:.3f} leaves hardly any disagreement: the rule takes {CLIP[1]:g}.")
    formula = k_star(c, star.epsilon, 10**9)
    if formula > star.k_max:
        told.append(f"The formula asks for {formula} paths; K_max = {star.k_max} bounds it (--cap).")
    return told
