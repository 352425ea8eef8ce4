"""What a vote gives: its paths, how confident each is, and how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from keff.errors import PlanError
from keff.gateway.traffic.metrics import Metrics
from keff.narrow import fields
from keff.plan import Plan
from keff.policy import Policy, Stop, calibrated, confidence_of, tally
from keff.policy.weighting import LOGPROBS
from keff.protocol.values import Object
from keff.sampling.verifier import Verifier
from keff.stats.votes import CONFIDENCE
from keff.usercode import VERIFIER, VERIFIER_FLAGS, Stamp, settle_verifier

Cause = Literal["policy", "deadline", "failures", "free_text", "no_agreement"]


class Drawn(NamedTuple):
    """One path: its choice, the response it came in, its vote key (None abstains) and its confidence.

    ``readings`` are its keys by kind of answer, where the kind is found per request (``kinds``). ``branch``
    drew it, where the policy asks several.
    """

    choice: Object
    body: Object
    key: str | None
    truncated: bool = False
    confidence: float = float("nan")
    readings: Mapping[str, str] | None = None
    branch: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a vote ended.

    ``paths`` are those that were counted, in the order in which they counted; ``unused`` came back but were
    not needed; ``failed`` counts upstream calls that failed, ``cancelled`` those that were cancelled.
    """

    stop: Stop
    cause: Cause
    paths: tuple[Drawn, ...]
    unused: tuple[Drawn, ...]
    failed: int
    cancelled: int

    def count(self, metrics: Metrics) -> None:
        """Count what became of the paths."""
        abstained = sum(path.key is None for path in self.paths)
        for became, paths in (
            ("voted", len(self.paths) - abstained),
            ("abstained", abstained),
            ("unused", len(self.unused)),
            ("cancelled", self.cancelled),
        ):
            metrics.count("keff_paths_total", paths, became=became)
        metrics.count("keff_votes_total", stop=self.cause)
        metrics.count("keff_upstream_failures_total", self.failed)
        metrics.observe("keff_request_paths", len(self.paths))


def cut_short(paths: Sequence[Drawn], cause: Cause) -> Stop:
    """Return the plurality of paths whose policy did not stop; none where nothing can agree."""
    if cause == "no_agreement":
        return Stop(None, 0.0, "vote_share", REASONS[cause])
    seen = tally([path.key for path in paths])
    share = seen.v1 / seen.counts.total() if seen.leader is not None else 0.0
    return Stop(seen.leader, share, "vote_share", REASONS[cause])


REASONS: dict[Cause, str] = {
    "deadline": "the deadline: the paths that were there voted",
    "failures": "too many paths failed: those that were there voted",
    "no_agreement": "no agreement: the first paths hold no answer that could repeat",
    "free_text": "free text: no path of the first round holds an answer",
}


def read_verifier(policy: Policy, verifier: Verifier | None) -> Verifier | None:
    """Return the verifier where a policy reads its confidence; others read log-probabilities, or none."""
    name = confidence_of(policy)
    return None if name is None or name in LOGPROBS else verifier


async def ratings(
    verifier: Verifier, talk: Sequence[Object], choices: Sequence[Object], metrics: Metrics
) -> tuple[Sequence[float], float]:
    """Return the verifier's confidence in each path, NaN where it fails, and its seconds; counts them."""
    texts = [str(fields(choice.get("message")).get("content") or "") for choice in choices]
    found = await asyncio.gather(*(verifier.rate(talk, text) for text in texts))
    failed = sum(value != value for value, _ in found)
    metrics.count("keff_verifier_paths_total", len(found) - failed, became="rated")
    metrics.count("keff_verifier_paths_total", failed, became="failed")
    seconds = sum(seconds for _, seconds in found)
    metrics.count("keff_verifier_seconds_total", seconds)
    return [value for value, _ in found], seconds


def check_rated(plan: Plan, policy: Policy, verifier: Verifier | None) -> None:
    """Raise PlanError or UsageError where nothing gives the confidence that the plan's policy was judged on.

    A run of keff says what rated its paths. Of another record nobody knows what its column is: without a
    verifier it passes for a log-probability only where no number of it is above 0.
    """
    name = confidence_of(policy)
    if name is None or name in LOGPROBS:
        return
    code = fields(fields((plan.task or {}).get("code")).get(VERIFIER))
    recorded = Stamp(str(code["name"]), str(code["sha256"])) if code else None
    settle_verifier("the plan", recorded, None if verifier is None else verifier.stamp)
    held = calibrated(policy)
    if verifier is not None or held is None or held.calibration is None:
        return
    above = held.calibration.informs and held.calibration.confidences[-1] > 0
    if name != CONFIDENCE or above:
        raise PlanError(
            f"the plan's policy {policy.spec} reads a confidence of its record that is no log-probability: "
            f"name what rates paths with {VERIFIER_FLAGS}"
        )
