"""What things cost and save in dollars and seconds, and against what."""

from __future__ import annotations

from dataclasses import dataclass

from keff.records import Interval, Result


@dataclass(frozen=True, slots=True)
class Seconds(Result):
    """How long a question takes: the median and the 95th percentile, in seconds."""

    p50: Interval | None
    p95: Interval | None


@dataclass(frozen=True, slots=True)
class Change(Result):
    """A policy minus ``against``, per question: a saving is negative.

    ``accuracy`` is a difference of shares, ``paths`` of mean paths, ``dollars`` of mean cost; None where
    unknown.
    """

    against: str
    accuracy: Interval | None
    paths: Interval
    dollars: Interval | None


@dataclass(frozen=True, slots=True)
class Step(Result):
    """One step of the recorded curve, from ``paths_from`` to ``paths_to`` paths per question.

    ``points`` is the gain in accuracy (a share), ``dollars`` what the step costs per question, and
    ``dollars_per_right_answer`` what one more right answer costs: None where the curve does not rise.
    """

    paths_from: int
    paths_to: int
    points: float
    dollars: float
    dollars_per_right_answer: float | None


@dataclass(frozen=True, slots=True)
class CurvePoint(Result):
    """A fixed number of paths on the record: accuracy, mean dollars per question, and the time to answer.

    All paths run at once. None where labels, prices or times are unknown.
    """

    paths: int
    accuracy: Interval | None
    dollars: Interval | None
    seconds: Seconds | None


@dataclass(frozen=True, slots=True)
class Bill(Result):
    """What the recommended policy costs at the prices given, in dollars.

    ``model`` is the name under which the price stands, ``per_path`` the mean cost of one path drawn alone,
    ``per_1000`` that of 1,000 questions and ``for_volume`` that of ``volume`` questions. ``steps`` are those
    of the recorded curve.
    """

    model: str
    per_path: Interval
    per_1000: Interval | None
    volume: int | None
    for_volume: Interval | None
    steps: tuple[Step, ...]
