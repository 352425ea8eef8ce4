"""Analysis -> the plan that a gateway deploys."""

from __future__ import annotations

from collections.abc import Mapping

from keff.analysis.results.estimates import Analysis
from keff.log import LogInfo
from keff.narrow import fields
from keff.plan import Plan, Profile
from keff.reading.open import Record
from keff.sampling.manifest import Config
from keff.stats.drift.patterns import pattern_codes, pattern_table
from keff.stats.models.mixture import vote_counts
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.calibrate import calibrate

# The drift alarm thins these to the paths that every request draws.
PROFILE_PATHS = 8


def profile(votes: Votes) -> Profile | None:
    """Return the label-free profile of the first paths of each item (at most 8), for the drift alarm.

    None when there are fewer than two, or when paths differ in their prompt template: a gateway draws all
    of its paths alike.
    """
    m = min(votes.k, PROFILE_PATHS)
    if votes.answers is None or votes.slots is not None or m < 2:
        return None
    counts = vote_counts(votes.paths(range(m)))[0]
    held = tuple(tuple(sorted((v for v in row if v), reverse=True)) for row in counts.tolist())
    return Profile(paths=m, table=tuple(pattern_table(pattern_codes(votes, m), m).tolist()), votes=held)


def task_of(info: LogInfo) -> dict[str, object]:
    """Return the task of a plan; code that was used is recorded there, and never run from there."""
    task = {**fields((info.config or {})["task"]), "options": dict(info.options)}
    return (
        task | {"code": {kind: stamp.to_dict() for kind, stamp in info.code.items()}} if info.code else task
    )


def make_plan(record: Record, analysis: Analysis) -> Plan:
    """Return the plan that a gateway deploys: the recommended policy with what it rests on."""
    config, votes = record.info.config, record.ballot.votes
    rated: Mapping[str, FloatArray] = {} if votes.correct is None else votes.rated
    return Plan(
        policy=analysis.decision.policy,
        space=record.ballot.reading.space,
        task=task_of(record.info) if config else None,
        config=dict(config) if config else None,
        fingerprint=Config.model_validate(config).fingerprint if config else None,
        estimates=analysis.to_dict(),
        profile=profile(votes),
        calibrations={name: calibrate(votes, given) for name, given in rated.items()},
    )
