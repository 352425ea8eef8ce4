"""One upstream call of a job, in a span of its own where requests are traced."""

from __future__ import annotations

import time
from collections.abc import Mapping

from keff.gateway.traffic.spans import Fact
from keff.gateway.upstream.fleet import Fleet
from keff.gateway.upstream.server import Answer, StreamedPath, UpstreamError
from keff.gateway.vote.job import RequestJob
from keff.protocol.tokens import counts_of


async def called(
    job: RequestJob,
    upstream: Fleet,
    body: bytes,
    headers: Mapping[str, str],
    streamed: StreamedPath | None = None,
) -> Answer:
    """Make one upstream call, and note how long it took; raises UpstreamError."""
    begun = time.perf_counter()
    answer = await _called(job, upstream, body, headers, streamed)
    job.times += [time.perf_counter() - begun] * len(answer.choices)
    return answer


async def _called(
    job: RequestJob,
    upstream: Fleet,
    body: bytes,
    headers: Mapping[str, str],
    streamed: StreamedPath | None,
) -> Answer:
    query, api, home = job.caller.query, job.ask.api, job.home(upstream)
    if job.span is None:
        return await upstream.draw(body, headers, query, api, home, streamed)
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
