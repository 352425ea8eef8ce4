"""What a vote gives: its paths, how confident each is, and how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from keff.gateway.traffic.metrics import Metrics
from keff.narrow import fields
from keff.policy import Policy, Stop, confidence_of, tally
from keff.policy.weighting import LOGPROBS
from keff.protocol.values import Object
from keff.records import frozen
from keff.sampling.verifier import Verifier

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


@frozen
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
