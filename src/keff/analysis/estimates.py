"""Votes -> estimates: everything that ``keff analyze`` says about one record."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keff.analysis.recommend import Aim, recommend
from keff.plan import Plan, Profile
from keff.policy import parse_policy
from keff.reading.ballot import Ballot
from keff.reading.open import Record
from keff.records import Estimate, Note
from keff.sampling.manifest import Config
from keff.stats import choose
from keff.stats.betabinomial import majority_curve
from keff.stats.bounds import majority_bounds
from keff.stats.correlation import agreement, anova_c, fleiss_kappa, pearson_c, pooled_c
from keff.stats.diversity import ceiling, k_eff, k_eff_block, percent_of_ceiling
from keff.stats.intervals import bootstrap_means, interval_c, interval_mean, majority_fits
from keff.stats.majority import majority_at_k_items, majority_binomial
from keff.stats.patterns import pattern_codes, pattern_table
from keff.stats.plurality import flip, plurality_at_k_items, plurality_share
from keff.stats.plurality_model import predict_plurality
from keff.stats.votes import FloatArray, Votes

BAND_REPLICATES = 2000
PROFILE_PATHS = 8
"""The drift alarm thins these to the paths that every request draws."""
BOUNDED_PATHS = 16
"""From more recorded paths, bounds are hardly wider than sampling error, and slow to find."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How to analyse: the paper's epsilon, the most paths one would pay for, the level, the seed, the aim."""

    epsilon: float = 0.025
    k_max: int = 32
    level: float = 0.95
    seed: int = 0
    aim: Aim = field(default_factory=Aim)


def analyze(record: Record, settings: Settings) -> dict[str, Any]:
    """Return the estimates of one record: the object of ``keff analyze --json`` (NaN where undefined).

    Needs gold labels for everything but agreement, plurality shares, flip and the recommendation's paths;
    what cannot be had is None with a warning.
    """
    votes = record.ballot.votes
    notes = list(record.ballot.notes)
    found: dict[str, Any] = {"n": votes.n, "k": votes.k, "clusters": votes.n_clusters}
    found |= _dependence(votes, settings, notes)
    found |= _curves(votes, settings)
    found |= _label_free(votes, notes)
    found["recommendation"] = _recommendation(votes, settings)
    found["extraction"] = _extraction(record.ballot)
    found["integrity"] = _integrity(record, notes)
    found["warnings"] = [{"code": note.code, "message": note.message} for note in _once(notes)]
    return found


def _once(notes: list[Note]) -> list[Note]:
    return list(dict.fromkeys(notes))


def interval(estimate: Estimate) -> dict[str, Any]:
    """Return an estimate as the JSON contract has it."""
    return {"value": estimate.value, "lo": estimate.lo, "hi": estimate.hi, "method": estimate.method}


def _dependence(votes: Votes, settings: Settings, notes: list[Note]) -> dict[str, Any]:
    empty = ("p", "c", "c_pooled", "c_pearson", "c_pearson_dropped", "k_eff", "ceiling", "k_eff_block")
    undefined: dict[str, Any] = dict.fromkeys((*empty, "percent_of_ceiling", "k_star"))
    if votes.correct is None:
        notes.append(Note("no_gold", "without gold answers accuracy and correlation cannot be known"))
        return undefined
    undefined["p"] = votes.p
    if votes.k < 2 or votes.n < 2:
        what = "path an item" if votes.k < 2 else "item"
        notes.append(Note("too_few", f"one {what} says nothing about correlation"))
        return undefined
    c = interval_c(votes, level=settings.level)
    notes.extend(c.warnings)
    return undefined | _correlation(votes, c) | {"k_star": _k_star(votes, c, settings)}


def _correlation(votes: Votes, c: Estimate) -> dict[str, Any]:
    pearson, dropped = pearson_c(votes)
    return {
        "c": interval(c),
        "c_pooled": pooled_c(votes),
        "c_anova": anova_c(votes),
        "c_pearson": pearson,
        "c_pearson_dropped": dropped,
        "k_eff": _mapped(c, lambda value: float(k_eff(votes.k, value))),
        "ceiling": _mapped(c, lambda value: float(ceiling(value))),
        "k_eff_block": k_eff_block(votes),
        "percent_of_ceiling": float(percent_of_ceiling(votes.k, c.value)),
    }


def _mapped(c: Estimate, function: Callable[[float], float]) -> dict[str, Any]:
    """Map an interval of c through a function that falls with c."""
    return {
        "value": function(c.value),
        "lo": None if c.hi is None else function(c.hi),
        "hi": None if c.lo is None else function(c.lo),
    }


def _k_star(votes: Votes, c: Estimate, settings: Settings) -> dict[str, Any]:
    epsilon, k_max = settings.epsilon, settings.k_max
    lo, hi = choose.k_star_interval(c, epsilon, k_max)
    return {
        "paper": choose.k_star(pooled_c(votes), epsilon, k_max),
        "conservative": choose.k_star_conservative(interval_c(votes, level=0.8), epsilon, k_max),
        "lo": lo,
        "hi": hi,
        "epsilon": epsilon,
        "k_max": k_max,
    }


def _curves(votes: Votes, settings: Settings) -> dict[str, Any]:
    if votes.correct is None:
        return {"majority": None, "plurality": None, "bands": None, "predicted": None}
    items = {"majority": majority_at_k_items(votes)}
    if votes.answers is not None:
        items["plurality"] = plurality_at_k_items(votes)
    rng = np.random.default_rng(settings.seed)
    bands: dict[str, Any] = {}
    for name, curve in items.items():
        bands[name] = _by_k(_band(curve, votes, rng, settings.level))
    return {
        **{name: _by_k(curve.mean(axis=0)) for name, curve in items.items()},
        "bands": bands,
        "predicted": _predicted(votes, settings),
    }


def _band(items: FloatArray, votes: Votes, rng: np.random.Generator, level: float) -> FloatArray:
    means = bootstrap_means(items, votes.cluster_ids, rng, BAND_REPLICATES)
    tail = (1 - level) / 2
    return np.quantile(means, [tail, 1 - tail], axis=0).T


def _by_k(values: FloatArray) -> dict[str, Any]:
    return {str(k): value.tolist() for k, value in enumerate(values, 1)}


def prediction_ks(k_max: int) -> list[int]:
    """Return the powers of two up to ``k_max``, and ``k_max`` itself."""
    powers = [2**power for power in range(int(math.log2(k_max)) + 1)]
    return sorted({*powers, k_max})


def _predicted(votes: Votes, settings: Settings) -> dict[str, Any]:
    ks = prediction_ks(settings.k_max)
    p, c = votes.p, _usable_c(votes)
    predicted: dict[str, Any] = {
        "binomial": {str(k): float(majority_binomial(k, p)) for k in ks},
        "beta_binomial": None,
        "bounds": None,
        "plurality": None,
    }
    if votes.n > 1 and votes.k > 1:
        beyond = [k for k in ks if k > votes.k]
        if beyond and votes.k <= BOUNDED_PATHS:
            lows, highs = majority_bounds(votes, beyond, settings.level)
            limits = zip(lows.tolist(), highs.tolist(), strict=True)
            predicted["bounds"] = dict(zip(map(str, beyond), map(list, limits), strict=True))
        if votes.answers is not None:
            forecasts = predict_plurality(votes, ks, settings.level)
            predicted["plurality"] = {str(one.k): interval(one.plurality) for one in forecasts}
    if c is not None:
        fits, curve = majority_fits(votes), majority_curve(settings.k_max, p, c)
        curves = fits.majority(settings.k_max)
        predicted["beta_binomial"] = {
            str(k): _valued(float(curve[k - 1]), fits.interval(curves[:, k - 1], settings.level)) for k in ks
        }
    return predicted


def _valued(value: float, limits: tuple[float, float]) -> dict[str, float]:
    return {"value": value, "lo": limits[0], "hi": limits[1]}


def _recommendation(votes: Votes, settings: Settings) -> dict[str, Any]:
    gain = vote_gain(votes, settings.k_max)
    found = choose.verdict(*(gain or (None, None))) if votes.correct is not None else "sample"
    advice = recommend(
        votes, settings.aim, found, cap=settings.k_max, rng=np.random.default_rng(settings.seed)
    )
    expected = advice.expected
    return {
        "verdict": advice.verdict,
        "policy": advice.policy,
        "k": parse_policy(advice.policy).cap,
        "expected_plurality": None if expected is None else interval(expected),
        "kept": advice.kept,
        "same_answer": None if advice.differs is None else 1 - advice.differs,
        "expected_paths": advice.expected_paths,
        "expected_tokens": advice.expected_tokens,
        "expected_cost": _cost(advice.expected_paths, settings.aim.cost_per_path),
        "because": advice.because,
    }


def _cost(paths: float | None, each: float | None) -> float | None:
    return None if paths is None or each is None else paths * each


def vote_gain(votes: Votes, cap: int, level: float = 0.9) -> tuple[float, float] | None:
    """Return the interval of plurality@cap minus plurality@1, or None when it cannot be known.

    Up to the recorded K: subset averages with a cluster-robust t interval. Beyond, the predicted gain from K
    to the cap is added; half widths add, as if the two errors went together.
    """
    if votes.correct is None or votes.answers is None or votes.k < 2 or votes.n < 2:
        return None
    items = plurality_at_k_items(votes)
    seen = interval_mean(items[:, min(cap, votes.k) - 1] - items[:, 0], votes.clusters, level)
    if seen.lo is None or seen.hi is None:
        return None
    if cap <= votes.k:
        return seen.lo, seen.hi
    (forecast,) = predict_plurality(votes, [cap], level)
    lo, hi = forecast.gain.lo, forecast.gain.hi
    return None if lo is None or hi is None else (seen.lo + lo, seen.hi + hi)


def _usable_c(votes: Votes) -> float | None:
    if votes.k < 2 or votes.n < 2 or votes.p in (0.0, 1.0):
        return None
    return min(max(anova_c(votes), 0.0), 1.0)


def beta_binomial_curve(votes: Votes, k_max: int) -> FloatArray | None:
    """Return the fitted beta-binomial majority curve at 1..k_max, or None when c is undefined."""
    c = _usable_c(votes)
    return None if c is None else majority_curve(k_max, votes.p, c)


def _label_free(votes: Votes, notes: list[Note]) -> dict[str, Any]:
    if votes.answers is None:
        return {"abstain_rate": None, "agreement": None, "kappa": None, "plurality_share": None, "flip": None}
    rate = float(np.mean(votes.answers < 0))
    if rate > 0.2:
        notes.append(Note("many_abstentions", f"{rate:.0%} of the paths gave no answer that could be read"))
    several = votes.k > 1
    return {
        "abstain_rate": rate,
        "agreement": agreement(votes) if several else None,
        "kappa": fleiss_kappa(votes).value if several and votes.closed else None,
        "plurality_share": _by_k(plurality_share(votes)),
        "flip": _by_k(flip(votes)),
    }


def _extraction(ballot: Ballot) -> dict[str, Any] | None:
    """Count by slot how answers were found, where the record says so."""
    counts: dict[int, Counter[str]] = {}
    for question in ballot.questions:
        for place, rule in enumerate(question.rules or ()):
            slot = question.slots[place] if question.slots else 0
            counts.setdefault(slot, Counter())[rule] += 1
    return {str(slot): dict(count.most_common()) for slot, count in sorted(counts.items())} or None


def _integrity(record: Record, notes: list[Note]) -> dict[str, float | None] | None:
    found = record.info.integrity
    if found is None:
        return None
    notes.extend(found.notes(_temperature(record)))
    return found.shares()


def _temperature(record: Record) -> float:
    sampling = (record.info.config or {}).get("sampling", {})
    return float(sampling.get("temperature", 1.0))


def profile(votes: Votes) -> Profile | None:
    """Return the label-free profile of the first paths of each item (at most 8), for the drift alarm.

    None when there are fewer than two, or when paths differ in their prompt template: a gateway draws all
    of its paths alike.
    """
    m = min(votes.k, PROFILE_PATHS)
    if votes.answers is None or votes.slots is not None or m < 2:
        return None
    return Profile(paths=m, table=tuple(pattern_table(pattern_codes(votes, m), m).tolist()))


def make_plan(record: Record, estimates: dict[str, Any]) -> Plan:
    """Return the plan that a gateway deploys: the recommended policy with what it rests on."""
    config = record.info.config
    return Plan(
        policy=estimates["recommendation"]["policy"],
        space=record.ballot.reading.space,
        task=dict(config["task"]) | {"options": dict(record.info.options)} if config else None,
        config=dict(config) if config else None,
        fingerprint=Config.model_validate(config).fingerprint if config else None,
        estimates=estimates,
        profile=profile(record.ballot.votes),
    )
