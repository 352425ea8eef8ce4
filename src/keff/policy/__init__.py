"""Interface of policies: when to stop drawing paths, and what to answer.

In: the votes so far (``View``). Out: ``Sample`` so many more, or ``Stop`` with an answer.
A policy is pure: the same view gives the same decision, live or replayed. Any stopping rule can be followed
by a weighted vote, draw in waves or in flight, and give up (``lead_k:3,weight=confidence,wave=4,give_up=4``).
Read ``view``, then ``spec`` (the grammar), ``drawing``, and ``live``, which runs a vote.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from keff import plugins
from keff.errors import PluginError, PolicyError
from keff.policy.drawing import (
    InFlight,
    InWaves,
    gave_up,
    giving_up,
    in_flight,
    in_flight_of,
    in_waves,
)
from keff.policy.live import RunningVote, cancel_running, run_vote
from keff.policy.spec import DEFAULT_CAP, PolicySpec, check_cap, format_spec
from keff.policy.view import (
    Branching,
    Fittable,
    Need,
    Policy,
    ReadsConfidence,
    Sample,
    Stop,
    Tally,
    Vectorised,
    View,
    WeightKind,
    best_checked,
    decided,
    is_passed,
    tally,
    undecided,
    weighs,
)
from keff.policy.weighting import (
    Calibrated,
    ConfidenceVote,
    LogOddsVote,
    calibrated,
    checked_name,
    part_of,
    with_calibrations,
)
from keff.stats.votes import CONFIDENCE
from keff.stats.voting.calibration import Calibration

# Options that every policy takes, because they choose the vote and not the stopping rule.
VOTE_OPTIONS = ("weight", "temperature", "confidence")

# Options that every policy over one branch takes: how many paths are drawn at once.
WAVE_OPTIONS = ("wave", "in_flight", "order")

# The option of every policy over one branch that ends it where its first paths all differ, or look wrong.
GIVE_UP = "give_up"

# Options of plans made by keff 0.2: planned rounds, which waves of given sizes equal.
REMOVED = ("rounds", "agreement")

__all__ = [
    "DEFAULT_CAP",
    "Branching",
    "Calibrated",
    "ConfidenceVote",
    "Fittable",
    "InFlight",
    "InWaves",
    "LogOddsVote",
    "Need",
    "Policy",
    "PolicySpec",
    "PolicyWarning",
    "RunningVote",
    "Sample",
    "Stop",
    "Tally",
    "Vectorised",
    "View",
    "WeightKind",
    "best_checked",
    "calibrated",
    "cancel_running",
    "check_fitted",
    "confidence_of",
    "decided",
    "for_one_model",
    "format_spec",
    "gave_up",
    "in_flight_of",
    "is_passed",
    "parse_policy",
    "run_vote",
    "tally",
    "undecided",
    "weighs",
    "with_calibrations",
]


class PolicyWarning(UserWarning):
    """A policy is legal but hardly what was meant."""


def parse_policy(text: str | PolicySpec, calibrations: Mapping[str, Calibration] | None = None) -> Policy:
    """Return the policy of a spec: ``name``, ``name:value`` or ``name:value,key=value,...``.

    Example: ``lead_k:3,cap=16``. Every policy takes these keys. ``wave=M`` draws at least M paths at
    once, ``wave=A+B+...`` waves of these sizes, and ``in_flight=W`` keeps W paths running (``order`` is
    ``arrival`` or ``launch``, the default). ``weight=confidence`` (with ``temperature=T``) or
    ``weight=log_odds`` weighs votes; ``confidence=NAME`` says which confidence to read. ``give_up=M``
    stops at M answers that all differ; with ``weight=log_odds``, ``give_up=P`` stops if two or more are
    right with a mean chance below P. ``calibrations`` by name are those of a plan, which ``switch`` and
    ``weight=log_odds`` need to decide. Warns (PolicyWarning) when the policy always stops after one of
    several paths. Raises PolicyError for an unknown name or option, or a value outside its range.
    """
    spec = PolicySpec.parse(text) if isinstance(text, str) else text
    if any(option in REMOVED for option in spec.options):
        raise PolicyError(f"policy {spec.name}: rounds= was removed: draw waves of given sizes (wave=3+5)")
    options: dict[str, Any] = {
        key: option
        for key, option in spec.options.items()
        if key not in (*VOTE_OPTIONS, *WAVE_OPTIONS, GIVE_UP)
    }
    if "cap" in options:
        check_cap(spec.name, options["cap"])
    if "else" in options:  # a word of Python: no function can take it by name
        options["otherwise"] = options.pop("else")
    if spec.value is not None:
        options["value"] = spec.value
    try:
        policy: Policy = plugins.load("policy", spec.name, **options)
    except PluginError as error:
        raise PolicyError(str(error)) from error
    vote = {key: spec.options[key] for key in VOTE_OPTIONS if key in spec.options}
    waves = {key: spec.options[key] for key in WAVE_OPTIONS if key in spec.options}
    # A rule that stops on weights draws its waves by them; one that only answers by weights goes around.
    if rates := vote.get("weight") == "log_odds" or isinstance(policy, ReadsConfidence):
        policy = with_calibrations(_rated(policy, **vote), calibrations or {})
    if GIVE_UP in spec.options:
        policy = giving_up(policy, spec.options[GIVE_UP])
    if waves:
        policy = _several_at_once(policy, **waves)
    if vote and not rates:
        policy = _weighted(policy, **vote)
    _warn_if_single(policy)
    return policy


def policy_now(text: str) -> Policy:
    """Return today's policy, a number K as ``fixed:K``; raises PolicyError."""
    return parse_policy(f"fixed:{text}" if text.strip().isdigit() else text)


def confidence_of(policy: Policy) -> str | None:
    """Return the name of the confidence a policy reads, or None."""
    reader = part_of(policy, ReadsConfidence)
    return None if reader is None else reader.confidence


def for_one_model(policy: Policy, wanted_by: str) -> None:
    """Raise PolicyError for a policy over branches where a single model is asked."""
    if isinstance(policy, Branching):
        names = ", ".join(policy.branches)
        raise PolicyError(f"{policy.spec} asks the branches {names}, and {wanted_by} draws from one model")


def check_fitted(policy: Policy) -> None:
    """Raise PolicyError, with what to do first, for a rule that decides nothing before its labelled pilot."""
    if "labels" in policy.needs:
        policy.decide(View(()))


def _several_at_once(policy: Policy, wave: object = None, **flight: object) -> Policy:
    if isinstance(policy, Branching):
        raise PolicyError(f"policy {policy.spec}: wave and in_flight are only for rules over one branch")
    if wave is not None and flight:
        raise PolicyError(f"policy {policy.spec}: give wave or in_flight, not both")
    if wave is not None:
        return in_waves(policy, wave)
    if "in_flight" not in flight:
        raise PolicyError(f"policy {policy.spec}: order needs in_flight=W, the number of paths that run")
    return in_flight(policy, flight["in_flight"], flight.get("order", "launch"))


def _rated(
    policy: Policy, weight: object = None, confidence: object = CONFIDENCE, temperature: object = None
) -> Policy:
    if temperature is not None:
        raise PolicyError(f"policy {policy.spec}: temperature needs weight=confidence")
    if isinstance(policy, Branching) and (weight, confidence) != (None, CONFIDENCE):
        raise PolicyError(f"policy {policy.spec}: weight and confidence are only for rules over one branch")
    name = checked_name(confidence)
    if not isinstance(policy, ReadsConfidence):
        return LogOddsVote(policy, confidence=name)
    if weight is not None:
        other = ": say else=log_odds" if isinstance(policy, Calibrated) else ""
        raise PolicyError(f"policy {policy.spec}: it weighs no votes{other}")
    return replace(cast("Any", policy), confidence=name)


def _weighted(
    policy: Policy, weight: object = None, temperature: object = 1.0, confidence: object = CONFIDENCE
) -> Policy:
    if weight != "confidence":
        raise PolicyError(f"policy {policy.spec}: weight must be confidence or log_odds")
    if not isinstance(temperature, int | float) or not 0 < temperature < float("inf"):
        raise PolicyError(f"policy {policy.spec}: temperature must be a number above 0")
    return ConfidenceVote(policy, float(temperature), checked_name(confidence))


def _warn_if_single(policy: Policy) -> None:
    if policy.cap < 2 or policy.needs & {"labels", "calibration"} or isinstance(policy, Branching):
        return
    # Of no known confidence: a path that is surely right may end any rule.
    if isinstance(policy.decide(View(["a"], [float("nan")])), Stop):
        text = f"{policy.spec} always stops after one path: raise its threshold, or say fixed:1"
        warnings.warn(text, PolicyWarning, stacklevel=3)
