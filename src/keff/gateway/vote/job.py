"""One request on its way, and its upstream calls, each in a span of its own where requests are traced."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from keff.gateway.accounts.billing import RequestSpending
from keff.gateway.http.request import Ask
from keff.gateway.traffic.metrics import Fact
from keff.gateway.traffic.savings import Baseline, Spent, longest_of
from keff.gateway.upstream.answer import NOBODY, Answer, Api, ClientHeaders, StreamedPath, UpstreamError
from keff.gateway.upstream.fleet import Fleet
from keff.gateway.upstream.served_branches import Branch, BranchLedger
from keff.gateway.upstream.server import Upstream
from keff.gateway.vote.extraction import Reader
from keff.gateway.vote.kinds import Asked
from keff.gateway.vote.vote import Vote
from keff.policy import Policy
from keff.protocol.reply import counts_of
from keff.sampling.verifier import Verifier

if TYPE_CHECKING:
    from keff.gateway.traffic.tracing import TraceSpan


@dataclass(slots=True)
class RequestJob(RequestSpending):
    """One request on its way: the ask, what follows from the plan, and the upstream calls that it makes.

    The paths that came back took ``times``. ``limits`` are the rate limits that the upstream told last.
    ``verifier`` rates its paths where its policy reads that; ``reads_logprobs`` says that it reads
    log-probabilities. ``reader`` reads its answers; without one ``asked`` is what the prompt says of its
    answer, and ``kind`` what it came to be. ``tab`` is its account with the branches of a plan that has
    several, of which ``first`` is asked first. ``baseline`` is what is deployed without the gateway.
    """

    name: str
    ask: Ask
    policy: Policy
    stale: list[str]
    shadow: bool
    caller: ClientHeaders = NOBODY
    head: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    vote: Vote | None = None
    stop: str = ""
    paths: int = 0
    verifier: Verifier | None = None
    reads_logprobs: bool = False
    share: float | None = None
    reader: Reader | None = None
    asked: Asked | None = None
    kind: str | None = None
    limits: Mapping[str, str] = field(default_factory=dict[str, str])
    span: TraceSpan | None = None
    times: list[float] = field(default_factory=list[float])
    baseline: Baseline | None = None
    tab: BranchLedger | None = None
    first: Branch | None = None
    homes: dict[Fleet, Upstream] = field(default_factory=dict[Fleet, Upstream])

    def home(self, fleet: Fleet) -> Upstream:
        """Return the server of a fleet that draws the paths of this request, as long as it can."""
        if fleet not in self.homes:
            self.homes[fleet] = fleet.home()
        return self.homes[fleet]

    @property
    def change(self) -> str | None:
        """The paths of the reply minus those of today, where these are always the same number."""
        today = self.baseline
        if today is None or today.k is None:
            return None
        return f"{self.drawn - today.k:+d} paths against {today.spec}"

    def spent(self, seconds: float, *, priced: bool) -> Spent:
        """Return what the reply took."""
        k = None if self.baseline is None else self.baseline.k
        at_once = None if k is None else longest_of(self.times, k)
        model = self.ask.body.get("model")
        return Spent(
            seconds,
            self.dollars if priced else None,
            self.drawn,
            at_once,
            self.tokens,
            self.cut_tokens,
            self.cut_dollars,
            self.name,
            self.key,
            model[:200] if isinstance(model, str) else "",
        )

    def body(self, start: int, n: int, head: bytes | None = None) -> bytes:
        """Return the upstream body of paths ``start`` to ``start + n - 1``; a stated seed counts up."""
        count = b',"n":%d' % n if n > 1 else b""
        seed = b"" if self.ask.seed is None else b',"seed":%d' % (self.ask.seed + start)
        return (self.head if head is None else head) + count + seed + b"}"


async def called(
    job: RequestJob,
    upstream: Fleet,
    body: bytes,
    headers: Mapping[str, str],
    n: int,
    streamed: StreamedPath | None = None,
) -> Answer:
    """Make one upstream call for ``n`` paths, and note how long it took; raises UpstreamError.

    Cancelled, its paths are lost, but for what came of a stream.
    """
    begun, draw = time.perf_counter(), upstream.draw if job.span is None else partial(_traced, job, upstream)
    try:
        answer = await draw(body, headers, job.caller.query, job.ask.api, job.home(upstream), streamed)
    except asyncio.CancelledError:
        if streamed is not None and streamed.began:
            job.cut.append(streamed.tokens)
        else:
            job.lost += n
        raise
    job.times += [time.perf_counter() - begun] * len(answer.choices)
    return answer


async def _traced(
    job: RequestJob,
    upstream: Fleet,
    body: bytes,
    headers: Mapping[str, str],
    query: str,
    api: Api,
    home: Upstream,
    streamed: StreamedPath | None,
) -> Answer:
    assert job.span is not None, "the request is traced"
    span, error = job.span.child("path"), "cancelled"
    facts: dict[str, Fact] = {"server.address": home.address.url}
    try:
        answer = await upstream.draw(body, {**headers, **span.headers()}, query, api, home, streamed)
        bill, error = counts_of(answer.body.get("usage")), None
        facts |= {"gen_ai.usage.input_tokens": bill.prompt, "keff.paths": len(answer.choices)}
        facts["gen_ai.usage.output_tokens"] = bill.output or 0
        return answer
    except UpstreamError as failed:
        error = str(failed)
        raise
    finally:
        span.end(facts, error)
