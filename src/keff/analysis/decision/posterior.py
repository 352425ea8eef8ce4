"""Joint posterior of the candidate rules and the reference: S draws shared by all figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from keff.analysis.decision.outcomes import COLUMNS, RuleOutcomes
from keff.analysis.decision.prior import DRAWS, GENERIC, PriceLaw, Prior, centred_normals
from keff.policy import parse_policy
from keff.records import frozen
from keff.stats.votes import FloatArray

# The usual variance of a vote's gain for each flip of one path, worth so many questions: fitted by
# ``benchmarks.constants.usual_vote``. Without it the questions that a pilot says are needed err by a third
# more (docs/which-policy-measured.md).
USUAL_VARIANCE, USUAL_QUESTIONS = 0.13, 30


@frozen
class RuleDraws:
    """Posterior draws of mean outcomes of C rules, each [S, C]; the last rule is the reference.

    ``level`` [S] is the reference's accuracy (None without labels), ``loss`` that minus a rule's;
    ``extra_prompt_dollars`` [S, 1] is what the reference's prompts add where each path is a request.
    """

    level: FloatArray | None
    loss: FloatArray
    flips: FloatArray
    paths: FloatArray
    tokens: FloatArray | None
    dollars: FloatArray | None
    extra_prompt_dollars: FloatArray | None = None


@frozen
class JointPosterior:
    """Posterior cost and accuracy loss of C candidate rules, the last of which is the reference.

    ``population`` are draws of means over all questions like the pilot's, ``new`` those over as many new ones
    as the pilot has; row s of both belongs together. ``gain_variance`` is that of the gain of the reference
    over one path from question to question. ``z_vote`` is the evidence of this pilot alone for a vote, in
    standard errors: the measured gain plus the label-free ``plurality_lift``, both 0 on average for fair
    coins (None without labels). ``measured`` [C] is the gain of each rule over one path on these questions,
    ``gain_alone`` [2, C] its 95% interval from this pilot alone (0 without labels). ``run_variance`` [C] is
    the variance of the change of accuracy from one run of a rule and one of the reference over these
    questions to two others.
    """

    specs: tuple[str, ...]
    population: RuleDraws
    new: RuleDraws
    groups: int
    questions: int
    gain_variance: float
    z_vote: float | None
    measured: FloatArray
    gain_alone: FloatArray
    run_variance: FloatArray

    @property
    def single(self) -> int:
        """The index of the rule of one path."""
        return self.specs.index("fixed:1")

    @property
    def loss(self) -> FloatArray:
        """The posterior mean loss of each rule [C]."""
        return np.asarray(self.population.loss.mean(axis=0))

    @property
    def paths(self) -> FloatArray:
        """The posterior mean paths of each rule [C]."""
        return np.asarray(self.population.paths.mean(axis=0))

    @property
    def level(self) -> float | None:
        """The posterior mean accuracy of the reference; None without labels."""
        return None if self.population.level is None else float(self.population.level.mean())

    @property
    def cost(self) -> FloatArray:
        """The posterior mean cost of each rule [C]: dollars, without prices tokens, else paths."""
        of, paths = self.population, self.population.paths
        dollars = of.dollars if of.dollars is not None else of.tokens
        return np.asarray((paths if dollars is None else dollars).mean(axis=0))

    def voting(self, rule: int) -> int:
        """Return the rule, or the reference where the rule is one path."""
        return rule if rule != self.single else len(self.specs) - 1

    def gain(self, rule: int) -> FloatArray:
        """Return draws [S] of the gain of voting over one path."""
        return self.population.loss[:, self.single] - self.population.loss[:, self.voting(rule)]


def posterior_of(
    seen: RuleOutcomes,
    ratios: FloatArray,
    cap: int,
    prior: Prior = GENERIC,
    seed: int = 0,
    level: float | None = None,
) -> JointPosterior:
    """Return the joint posterior from the rules' outcomes on a pilot's questions.

    Clusters of questions are resampled. ``ratios`` [C] are the flips of rules for one of a single path in
    general (``generic_ratios``), ``cap`` and ``level`` (where unknown here) those of the reference.
    """
    rng = np.random.default_rng(seed)
    groups, questions = seen.rows.groups, seen.rows.clusters.size
    first, other = _bootstrap_columns(seen, rng), _bootstrap_columns(seen, rng)
    if seen.calibration_error.any():
        first["paths"] = first["paths"] + seen.calibration_error[1] * centred_normals(rng)
    flips = _flips(seen, first["flips"], ratios, prior)
    law = PriceLaw.of(seen, ratios, cap, prior, level)
    lost = _losses(seen, first, other, flips, law, groups, ratios, prior, rng)
    if cap == 2 and seen.loss is not None:
        # A vote of two is right as often as one of them but for abstentions, which this pilot counts: no
        # usual price of an answer that changes holds for it, and where none abstains nothing is left to know.
        lost = replace(lost, losses=first["loss"], noise=other["loss"] - seen.rows.means(seen.loss))
        if np.abs(seen.loss).max() < 1e-9:
            lost = replace(lost, gain_alone=np.zeros_like(lost.gain_alone))
    right = first.get("right")
    if right is not None:
        # Two imagined questions, one right and one wrong, keep a perfect pilot from claiming certainty.
        right = right[:, 0] + (0.5 / (groups * max(groups - 1, 1))) ** 0.5 * centred_normals(rng)[:, 0]
    new = {
        name: first[name] + values - seen.rows.means(_column(seen, name)) for name, values in other.items()
    }
    # A sum of two deviations may leave what a rule can draw.
    new["paths"] = np.clip(new["paths"], 1.0, [parse_policy(spec).cap for spec in seen.specs])
    new_level = None if right is None else right + (new["right"] - first["right"])[:, 0]
    return JointPosterior(
        seen.specs,
        _draws(right, lost.losses, flips, first),
        _draws(new_level, lost.losses + lost.noise, flips, new),
        groups,
        questions,
        lost.gain_variance,
        lost.z_vote,
        lost.measured,
        lost.gain_alone,
        _run_variance(seen),
    )


def _draws(
    level: FloatArray | None, loss: FloatArray, flips: FloatArray, means: dict[str, FloatArray]
) -> RuleDraws:
    return RuleDraws(
        level, loss, flips, means["paths"], *map(means.get, ("tokens", "dollars", "extra_prompt_dollars"))
    )


def _flips(seen: RuleOutcomes, drawn: FloatArray, ratios: FloatArray, prior: Prior) -> FloatArray:
    """Return posterior draws of each rule's share of changed answers [S, C]."""
    single = seen.specs.index("fixed:1")
    weight = prior.pseudo_questions / (seen.rows.clusters.size + prior.pseudo_questions)
    once = drawn[:, [single]]
    # Of rules that read a confidence other workloads say nothing.
    flips = drawn + weight * np.where(np.isnan(ratios), 0.0, ratios * once - drawn)
    return np.maximum(flips, 0.0)  # centring may leave a hair below 0


@frozen
class _Losses:
    """Posterior ``losses`` [S, C], noise of new questions, and the evidence for voting."""

    losses: FloatArray
    noise: FloatArray
    gain_variance: float
    z_vote: float | None
    measured: FloatArray
    gain_alone: FloatArray


def _losses(
    seen: RuleOutcomes,
    first: dict[str, FloatArray],
    other: dict[str, FloatArray],
    flips: FloatArray,
    law: PriceLaw,
    groups: int,
    ratios: FloatArray,
    prior: Prior,
    rng: np.random.Generator,
) -> _Losses:
    """Return posterior losses: shrunk to the prior cost of changed answers; without labels drawn from it."""
    single, mean_flips = seen.specs.index("fixed:1"), flips.mean(axis=0)
    once = float(mean_flips[single])
    if seen.loss is None:
        nothing = np.zeros_like(flips)
        return _Losses(
            law.draw_losses(flips, rng), nothing, prior.least_variance * once, None, nothing[0], nothing[:2]
        )
    measured, variance = seen.rows.means(seen.loss), first["loss"].var(axis=0)
    by_luck = np.square(seen.orders_error) + np.square(seen.calibration_error[0])
    least = prior.least_variance * mean_flips / groups
    # Two imagined units, as beside measured differences, as far as the rule changes answers at all; one that
    # reads a confidence may change as many as one path does.
    imagined = 2 * (prior.imagined / groups) ** 2 * np.nan_to_num(ratios, nan=1.0)
    extra = np.sqrt(imagined + by_luck)
    unsure = np.maximum(least, variance + by_luck)
    raw = first["loss"] + extra * centred_normals(rng)
    loss = law.shrink_losses(raw, measured, unsure, flips, mean_flips, single, rng)
    noise = other["loss"] - measured + extra * centred_normals(rng)
    evidence = first["loss"][:, single] + first["plurality_lift"][:, 0]
    z_vote = float(evidence.mean()) / max(float(evidence.std()), 1e-12)  # apart from rounding
    usual = USUAL_QUESTIONS * USUAL_VARIANCE * once
    gain_variance = (float(variance[single]) * groups**2 + usual) / (groups + USUAL_QUESTIONS)
    gains = [
        seen.rows.difference(seen.loss[:, single] - lost, error)
        for lost, error in zip(seen.loss.T, seen.orders_error, strict=True)
    ]
    gain_alone = np.array([gain.limits or (gain.value, gain.value) for gain in gains]).T
    return _Losses(loss, noise, gain_variance, z_vote, measured[single] - measured, gain_alone)


def _column(seen: RuleOutcomes, name: str) -> FloatArray:
    values: FloatArray = getattr(seen, name)
    return values.reshape(len(values), -1)


def _bootstrap_columns(seen: RuleOutcomes, rng: np.random.Generator) -> dict[str, FloatArray]:
    """Return cluster-bootstrap means of every column [S, m], centred at the sample means."""
    names = [name for name in COLUMNS if getattr(seen, name) is not None]
    columns = [_column(seen, name) for name in names]
    together = np.hstack(columns)
    means = seen.rows.bootstrap(together, DRAWS, rng).T
    # A mean over draws is the sample's, to rounding.
    means += seen.rows.means(together) - means.mean(axis=0)
    edges = np.cumsum([column.shape[1] for column in columns])[:-1]
    return dict(zip(names, np.split(means, edges, axis=1), strict=True))


def _run_variance(seen: RuleOutcomes) -> FloatArray:
    """Return the variance over paths of a rule's accuracy minus the reference's, in one run of each."""
    if seen.right is None or seen.loss is None:
        return np.zeros(len(seen.specs))
    each = np.clip(seen.right[:, None] - seen.loss, 0.0, 1.0)
    within = seen.rows.means(each * (1 - each))
    return (within + within[-1]) / seen.rows.clusters.size
