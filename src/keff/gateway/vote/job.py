"""One request in progress: its upstream calls, their trace spans, and ratings by a verifier."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from keff.gateway.billing import RequestSpending
from keff.gateway.http.request import ParsedRequest
from keff.gateway.traffic.metrics import Fact, Metrics
from keff.gateway.traffic.savings import Baseline, RequestCost, longest_of
from keff.gateway.upstream.answer import (
    NOBODY,
    Answer,
    ClientHeaders,
    StreamedPath,
    UpstreamCall,
    UpstreamError,
)
from keff.gateway.upstream.fleet import Fleet
from keff.gateway.upstream.served_branches import Branch, BranchLedger
from keff.gateway.upstream.server import Upstream
from keff.gateway.vote.extraction import Reader
from keff.gateway.vote.kinds import AskedKinds
from keff.gateway.vote.threads import AnswerReading
from keff.gateway.vote.vote import Vote
from keff.narrow import fields
from keff.policy import Policy
from keff.protocol.reply import counts_of
from keff.protocol.server import seed_of_path
from keff.protocol.values import Object, text_of
from keff.sampling.verifier import Verifier

if TYPE_CHECKING:
    from keff.gateway.traffic.tracing import TraceSpan


@dataclass(slots=True)
class RequestJob(RequestSpending):
    """One request in progress: the request, its terms from the plan, and its upstream calls.

    ``regular`` says that the plan describes this request. ``times`` are the seconds of the paths that
    came back, ``limits`` the rate limits that the upstream reported last. ``verifier`` rates the paths if
    the policy reads ratings; ``reads_logprobs`` says that it reads log-probabilities. ``reader`` reads
    the answers. Without one, ``asked`` is what the prompt says about its answer, and ``kind`` is the kind
    found. ``by_branch`` is its account with the branches of a plan that has several; ``first`` is asked
    first. ``baseline`` is what runs today without the gateway. ``greedy`` names the field that leaves the
    server no choice, so that keff draws one path; ``repeated`` paths had come before. ``failed`` counts
    upstream calls. ``bill`` is the cost at the reply of a shadow request, whose paths go on.
    """

    name: str
    ask: ParsedRequest
    policy: Policy
    stale: list[str]
    shadow: bool
    caller: ClientHeaders = NOBODY
    regular: bool = False
    head: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    vote: Vote | None = None
    stop: str = ""
    paths: int = 0
    verifier: Verifier | None = None
    reads_logprobs: bool = False
    share: float | None = None
    reader: Reader | None = None
    asked: AskedKinds | None = None
    kind: str | None = None
    reading: AnswerReading | None = None
    unread: int = 0
    undecided: bool = False
    repeated: int = 0
    failed: int = 0
    greedy: str | None = None
    limits: Mapping[str, str] = field(default_factory=dict[str, str])
    span: TraceSpan | None = None
    times: list[float] = field(default_factory=list[float])
    baseline: Baseline | None = None
    by_branch: BranchLedger | None = None
    first: Branch | None = None
    bill: RequestCost | None = None
    homes: dict[Fleet, Upstream] = field(default_factory=dict[Fleet, Upstream])

    def home(self, fleet: Fleet) -> Upstream:
        """Return the fleet's server for this request's paths, the same as long as it is up."""
        if fleet not in self.homes:
            self.homes[fleet] = fleet.home()
        return self.homes[fleet]

    @property
    def model(self) -> str:
        """The requested model's name, shortened; empty if none."""
        model = self.ask.body.get("model")
        return model[:200] if isinstance(model, str) else ""

    @property
    def cancelled(self) -> int:
        """The paths that were begun and did not come back."""
        return self.cut_paths + self.lost

    def reply_headers(self) -> dict[str, str]:
        """Return the reply's headers: paths, share, warnings, and the upstream's rate limits."""
        told, today = dict(self.limits), self.baseline
        if self.paths:
            told["x-keff-paths"] = str(self.paths)
            if today is not None and today.k is not None:
                told["x-keff-change"] = (
                    f"{self.drawn + self.cancelled - today.k:+d} paths against {today.spec}"
                )
        if self.share is not None:
            told["x-keff-share"] = f"{self.share:.4g}"
        if self.unread:
            told["x-keff-unread"] = str(self.unread)
        if self.undecided:
            told["x-keff-undecided-by"] = "unread"
        if self.repeated:
            told["x-keff-repeated"] = str(self.repeated)
        if self.greedy:
            told["x-keff-greedy"] = self.greedy
        if self.by_branch is not None and self.by_branch.down:
            told["x-keff-branch-down"] = ", ".join(self.by_branch.down)
        if self.stale:
            told["x-keff-stale-plan"] = ", ".join(self.stale)
        return told

    def reply_cost(self, seconds: float, *, priced: bool) -> RequestCost:
        """Return the cost of the reply."""
        return (self.bill or self.so_far(priced=priced))._replace(seconds=seconds)

    def so_far(self, *, priced: bool) -> RequestCost:
        """Return what was spent until now, in no known time."""
        k = None if self.baseline is None else self.baseline.k
        at_once = None if k is None else longest_of(self.times, k)
        return RequestCost(
            0.0,
            self.dollars if priced else None,
            self.drawn,
            at_once,
            self.tokens,
            self.cut_tokens,
            self.cut_dollars,
            self.name,
            self.key,
            self.model,
            self.stop,
            self.cancelled,
            self.calls if self.shared else 0,
            self.prompt_tokens,
            self.prompt_dollars,
        )

    def head_for(self, branch: Branch | None) -> bytes:
        """Return the body of a branch, or of the one upstream, without its closing brace."""
        return self.head if self.by_branch is None or branch is None else self.by_branch.head(branch)

    def call(self, start: int, n: int, branch: Branch | None = None) -> UpstreamCall:
        """Return the upstream call for paths ``start`` to ``start + n - 1``, each with a seed of its own."""
        head, headers, model = self.head_for(branch), self.headers, self.ask.body.get("model")
        if branch is not None:
            headers, model = branch.headers(self.caller), branch.plan.model or model
        count = b',"n":%d' % n if n > 1 else b""
        seeds = "".join(
            f',"{name}":{seed_of_path(seed, start)}' for name, seed in self.ask.seeds.items()
        ).encode()
        return UpstreamCall(head + count + seeds + b"}", headers, self.caller.query, self.ask.api, model)


async def make_call(
    job: RequestJob, upstream: Fleet, call: UpstreamCall, n: int, streamed: StreamedPath | None = None
) -> Answer:
    """Make one upstream call for ``n`` paths and record its time; raises UpstreamError.

    Cancelled, its paths are lost, but for what came of a stream.
    """
    begun, draw = (
        time.perf_counter(),
        upstream.draw if job.span is None else partial(_call_in_span, job, upstream),
    )
    try:
        answer = await draw(call, job.home(upstream), streamed)
    except asyncio.CancelledError:
        if streamed is not None and streamed.began:
            job.cut.append(streamed.tokens)
        else:
            job.lost += n
        raise
    job.times += [time.perf_counter() - begun] * len(answer.choices)
    return answer


async def _call_in_span(
    job: RequestJob, upstream: Fleet, call: UpstreamCall, home: Upstream, streamed: StreamedPath | None
) -> Answer:
    assert job.span is not None, "the request is traced"
    span, error = job.span.child("path"), "cancelled"
    facts: dict[str, Fact] = {"server.address": home.address.url}
    try:
        sent = call._replace(headers={**call.headers, **span.headers()})
        answer = await upstream.draw(sent, home, streamed)
        bill, error = counts_of(answer.body.get("usage")), None
        facts |= {"gen_ai.usage.input_tokens": bill.prompt, "keff.paths": len(answer.choices)}
        facts["gen_ai.usage.output_tokens"] = bill.output or 0
        return answer
    except UpstreamError as failed:
        error = str(failed)
        raise
    finally:
        span.end(facts, error)


def text_of_choice(choice: Object) -> str:
    """Return the text of a choice's message."""
    return text_of(fields(choice.get("message")).get("content"))


async def ratings(
    verifier: Verifier, talk: Sequence[Object], choices: Sequence[Object], metrics: Metrics
) -> tuple[Sequence[float], float]:
    """Return the verifier's confidence in each path (NaN where it fails), and the seconds taken."""
    found = await asyncio.gather(*(verifier.rate(talk, text_of_choice(choice)) for choice in choices))
    failed = sum(value != value for value, _ in found)
    metrics.count("keff_verifier_paths_total", len(found) - failed, became="rated")
    metrics.count("keff_verifier_paths_total", failed, became="failed")
    seconds = sum(seconds for _, seconds in found)
    metrics.count("keff_verifier_seconds_total", seconds)
    return [value for value, _ in found], seconds
