"""The service of one gateway: its shared parts, and how one request becomes a voted reply."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from keff.gateway.billing import Billing, estimated, no_price
from keff.gateway.http.errors import Problem
from keff.gateway.http.reply import (
    all_paths,
    completion,
    response,
    total_usage,
    vote_object,
    vote_share,
    winner,
)
from keff.gateway.http.request import ParsedRequest
from keff.gateway.keys import ClientKey
from keff.gateway.options import Options
from keff.gateway.traffic.ledger import Shadows, TrafficLedger, VoteLog
from keff.gateway.traffic.metrics import Metrics
from keff.gateway.traffic.pages import States
from keff.gateway.traffic.savings import Baseline, RequestCost
from keff.gateway.upstream.answer import RESPONSES, Answer, ClientHeaders, StreamedPath, UpstreamError
from keff.gateway.upstream.fleet import Fleet
from keff.gateway.upstream.served_branches import Branch, BranchLedger, ServedBranches
from keff.gateway.vote.extraction import PathReading, Reader, lacking, reader_asked, with_labels
from keff.gateway.vote.job import RequestJob, make_call, ratings, text_of_choice
from keff.gateway.vote.kinds import KindReader, Settlement, asked, is_tiny
from keff.gateway.vote.request_policy import PlanTerms, RequestPolicies
from keff.gateway.vote.threads import SPARE, AnswerReading, ReadingThreads
from keff.gateway.vote.vote import Outcome, PathResult, Vote
from keff.narrow import entries, fields
from keff.policies.retry import reads_verdicts
from keff.policy import Policy, confidence_of, in_flight_of, parse_policy
from keff.policy.weighting import LOGPROBS, logprob_of
from keff.protocol.reply import summarize, tokens_of, with_answer
from keff.protocol.server import Parameters, Sharing, greedy_field, parameters_taught, taken_by
from keff.protocol.values import Object
from keff.sampling.verifier import Verifier

if TYPE_CHECKING:
    from keff.gateway.traffic.tracing import Tracer

log = logging.getLogger("keff.gateway")

# The policy of requests too short to hold an answer.
SINGLE = parse_policy("fixed:1")


@dataclass(slots=True, kw_only=True)
class Service:
    """The service of a plan; or of a policy without one, with answers found by request (``reader`` None).

    ``served`` holds the branches of a plan that has several; ``upstream`` draws where there is none, and gets
    what is not voted on. ``trusted``: the operator named it, so that a client's own key may go there.
    """

    policy: Policy
    reader: Reader | None
    terms: PlanTerms
    upstream: Fleet
    options: Options
    ledger: TrafficLedger
    shadows: Shadows
    vote_log: VoteLog | None
    trusted: bool
    served: ServedBranches | None
    baseline: Baseline | None
    billing: Billing
    tracer: Tracer | None
    verifier: Verifier | None
    kinds: KindReader
    sharing: Sharing
    policies: RequestPolicies
    pool: ReadingThreads = field(default_factory=ReadingThreads)
    gives_logprobs: bool = True
    in_flight: int = 0

    @property
    def metrics(self) -> Metrics:
        """The metrics of this process."""
        return self.billing.metrics

    @property
    def priced(self) -> bool:
        """Whether paths have a price."""
        return bool(self.billing.prices) or (self.served is not None and self.served.priced)

    def by_chat(self, model: object) -> bool:
        """Return whether Responses requests are sent upstream as chat, as the plan's pilot was."""
        adds = self.terms.known or self.served is not None or self.options.append_answer_format
        return adds or model in self.upstream.chat_only

    async def job(self, name: str, ask: ParsedRequest, caller: ClientHeaders) -> RequestJob:
        """Return the job of a request, with the plan's terms and policy applied; raises Problem."""
        view = ask.view
        stale = self.terms.apply(view) + lacking(self.reader, view)
        if "model" in view:
            # Of Responses, which are asked as they are, a plan says no more than this.
            ask.body["model"] = view["model"]
        if stale and self.options.strict:
            line = f"this gateway serves its plan only; the request differs in {', '.join(stale)}"
            raise Problem(404 if stale[0] == "model" else 400, line, param=stale[0], code="stale_plan")
        most = max(self.options.max_paths, self.policy.cap)
        policy = await self.policies.settled(self.policy, ask.wish, most)
        if reads_verdicts(policy) and self.verifier is None:
            line = f"{policy.spec} needs a checker, and this gateway has none (--verifier)"
            raise Problem(400, line, param="keff.policy", code="invalid_policy")
        about, reader, wish = None, self.reader, ask.wish
        if wish.answer_space is not None or wish.fields:
            reader = reader_asked(wish.answer_space, wish.fields or (), frozenset(self.options.tool_ignore))
        if reader is None:
            about = asked(view)
            if policy is self.policy and is_tiny(view) and not reads_verdicts(policy):
                policy = SINGLE
        as_json = str(fields(view.get("response_format")).get("type")).startswith("json")
        if self.options.append_answer_format and reader is not None and not as_json and not view.get("tools"):
            ask.end_with(reader.space.contract)
        shadow = policy is self.policy and self.served is None and self.shadows.chosen()
        job = RequestJob(name, ask, policy, stale, shadow, caller, reader=reader, asked=about)
        job.regular = not stale and policy is self.policy and reader is self.reader
        job.greedy = None if self.served is not None else greedy_field(ask.body)
        if job.greedy:
            job.policy, job.regular, job.shadow = SINGLE, False, False
        job.baseline, confidence = self.baseline, confidence_of(policy)
        # A confidence of another name than those of log-probabilities is the verifier's.
        job.verifier = None if confidence in (None, *LOGPROBS) else self.verifier
        job.reads_logprobs = job.verifier is None and confidence is not None
        if self.served is None:
            job.head = self._head(job)
            job.headers = self.upstream.address.headers(caller)
            return job
        job.by_branch, job.first = BranchLedger(self.served, ask.body), self.served.first(policy)
        # What no body can hold is refused before anything is drawn.
        job.by_branch.head(job.first)
        return job

    def estimate(self, key: ClientKey, job: RequestJob) -> None:
        """Estimate what a path of a job may cost its client; raises Problem where no price is known."""
        job.key, model = key.name, job.ask.body.get("model")
        if job.by_branch is not None:
            found = job.by_branch.estimate()
        else:
            price = self.billing.prices.of(model)
            found = price and estimated(job.ask.view, job.head, price)
        if found is not None:
            job.estimate = found
        elif key.dollars_per_day is not None:
            raise no_price(key, model)

    async def run(self, job: RequestJob) -> Object:
        """Run the vote of a job and return the reply; raises Problem or UpstreamError."""
        vote = job.vote = self._vote(job)
        try:
            outcome = await vote.run()
        except BaseException:
            # Failed, or left by its client: what came back was billed all the same.
            job.paths, job.failed = len(vote.drawn), vote.failed
            self.metrics.count("keff_paths_total", job.paths, became="abandoned")
            self.metrics.count("keff_upstream_failures_total", vote.failed)
            raise
        finally:
            # A vote calls for its job: held by it in turn, both would wait for the garbage collector.
            job.vote = None
            self.billing.charge_cut(job, job.ask.body.get("model"))
        job.kind = vote.settlement.kind
        self._note(job, outcome)
        reply = self._reply(job, outcome, vote.settlement.members_voted())
        if job.shadow and outcome.cause == "policy":
            job.bill = job.so_far(priced=self.priced and job.priced)
            self.shadows.start(self._shadow(job, vote, job.bill))
        return reply

    def _vote(self, job: RequestJob) -> Vote:
        # Only a rule that keeps paths in flight cancels any: what they cost until then is counted.
        streams = in_flight_of(job.policy) is not None
        if job.reader is not None:
            end = asyncio.get_running_loop().time() + (1 - SPARE) * self.deadline(job)
            job.reading = AnswerReading(
                with_labels(job.reader, job.ask.view), self.pool, self.options.reading_seconds, end
            )
        # Responses have no n at all.
        alone = job.ask.api is RESPONSES
        shares = {} if self.served is None or alone else self.served.shares
        options, asked, voting = self.options, job.asked, not reads_verdicts(job.policy)
        return Vote(
            job.policy,
            partial(self._answer, job, streams),
            partial(self._paths, job),
            Sharing(1) if alone else self.sharing,
            shares,
            [] if self.served is None else self.served.in_turn(job.policy),
            settlement=Settlement(job.ask.view.get("response_format"), job.ask.view.get("tools")),
            deadline=self.deadline(job),
            replacements=options.replacements,
            # Who asks for several choices gets them, whatever they are.
            free_text=options.free_text if job.ask.n == 1 and voting else "draw",
            give_up=asked is not None
            and job.policy is self.policy
            and voting
            and options.free_text != "draw",
            probe=asked is not None and not asked.known and job.ask.n == 1 and voting,
            skip=self.served is None or self.served.skip,
            keep=job.shadow and in_flight_of(job.policy) is not None,
            least=1 if job.greedy else job.ask.n,
            given_up={} if job.by_branch is None else job.by_branch.down,
            greedy=() if self.served is None else self.served.greedy(job.ask.body),
        )

    async def _answer(self, job: RequestJob, streams: bool, start: int, n: int, name: str) -> Answer:
        """Make one upstream call of a vote, to the named branch if any, and charge it."""
        by_branch, count, begun = job.by_branch, self.metrics.count, time.perf_counter()
        # A policy that names no branch draws from the one asked first.
        branch = by_branch.served.branches[name] if by_branch is not None and name else job.first
        try:
            answer = await self._called(job, branch, start, n, streams=streams)
        except UpstreamError as error:
            self.charge(job, error.usage, branch=branch)
            if branch is not None:
                count("keff_branch_failures_total", branch=branch.name)
            raise
        paths, said = len(answer.choices), answer.body
        seconds = sum(job.times[-paths:])
        self.charge(job, said.get("usage"), said.get("model"), branch=branch, paths=paths, seconds=seconds)
        job.drawn += paths
        job.limits = answer.limits or job.limits
        if branch is not None:
            count("keff_branch_seconds_total", time.perf_counter() - begun, branch=branch.name)
        # With a seed for each path a cache holds them apart, and gives each its own.
        return replace(answer, cached=answer.cached and not job.ask.seeds)

    async def _paths(self, job: RequestJob, answer: Answer) -> list[PathResult]:
        """Return the paths of one upstream answer with their vote keys."""
        paths: list[PathResult] = []
        for choice in answer.choices:
            if job.reading is not None:
                read = await job.reading.read(choice)
            else:
                assert job.asked is not None, "a job without a reader says what its prompt asks for"
                read = self.kinds.read(choice, job.asked)
            paths.append(self._path(job, choice, answer.body, read))
        if job.verifier is None:
            return paths
        talk = entries(job.ask.view.get("messages"))
        rated, seconds = await ratings(job.verifier, talk, answer.choices, self.metrics)
        dollars = self.billing.prices.rating(len(rated), seconds)
        job.dollars += dollars
        self.metrics.count("keff_dollars_total", dollars)
        paths = [path._replace(confidence=value) for path, value in zip(paths, rated, strict=True)]
        if not reads_verdicts(job.policy):
            return paths
        # What a checker judges needs no answer that can be compared: without one the text is the answer.
        return [path._replace(key=path.key or text_of_choice(path.choice), readings=None) for path in paths]

    async def _called(
        self, job: RequestJob, branch: Branch | None, start: int, n: int, *, streams: bool
    ) -> Answer:
        """Make one call, again in other fields where the server teaches how it is asked."""
        upstream = self.upstream if branch is None else branch.upstream
        while True:
            head, streamed = job.head_for(branch), StreamedPath() if streams and branch is None else None
            try:
                return await make_call(job, upstream, job.call(start, n, branch), n, streamed)
            except UpstreamError as error:
                if not self.learn(job, branch, head, error):
                    raise

    def learn(self, job: RequestJob, branch: Branch | None, sent: bytes, error: UpstreamError) -> bool:
        """Return whether a refusal of the body ``sent`` teaches how to ask, and ask so from then on."""
        if error.status not in (400, 422):
            return False
        if sent != job.head_for(branch):
            # Another path of the request has learnt it.
            return True
        refusal = f"{error.refusal.param} {error}"
        if branch is not None and job.by_branch is not None:
            return job.by_branch.learn(branch, refusal)
        if "logprobs" in refusal and self.gives_logprobs and job.reads_logprobs and not job.ask.logprobs:
            log.warning("the upstream refuses log-probabilities: every path is an ordinary vote")
            self.gives_logprobs = False
        model, known = job.ask.body.get("model"), self._parameters(job)
        self.upstream.teach(model, parameters_taught(taken_by(known, job.ask.body), refusal, known))
        job.head = self._head(job)
        return job.head != sent

    def _parameters(self, job: RequestJob) -> Parameters:
        return {**self.terms.parameters, **self.upstream.taught.get(job.ask.body.get("model"), {})}

    def _head(self, job: RequestJob) -> bytes:
        return job.ask.head(self.gives_logprobs and job.reads_logprobs, self._parameters(job))

    def deadline(self, job: RequestJob) -> float:
        """Return the seconds within which a job must be answered.

        By default what one path may take, at every server in turn: each may hang once.
        """
        stated = (each for each in (self.options.deadline, job.ask.wish.deadline_s) if each is not None)
        return min(stated, default=sum(server.path_seconds for server in self.servers))

    def charge(
        self,
        job: RequestJob,
        usage: object,
        model: object = None,
        *,
        branch: Branch | None = None,
        paths: int = 0,
        seconds: float = 0.0,
    ) -> None:
        """Charge one upstream answer to its branch, or to the model that answered."""
        price = self.billing.prices.of(model, job.ask.body.get("model")) if branch is None else branch.price
        bill, dollars = self.billing.charge(job, usage, price, paths, seconds)
        if self.terms.upstream is not None and self.served is None:
            self.upstream.note_model(job.ask.body.get("model"), model)
        if branch is not None and job.by_branch is not None:
            count, mine = self.metrics.count, job.by_branch.bill(branch)
            mine.calls, mine.usage = mine.calls + 1, mine.usage + bill
            mine.dollars += dollars
            branch.upstream.note_model(branch.plan.model, model)
            count("keff_branch_paths_total", paths, branch=branch.name)
            count("keff_branch_tokens_total", bill.prompt, branch=branch.name, kind="prompt")
            count("keff_branch_tokens_total", bill.output, branch=branch.name, kind="completion")
            if branch.price is not None:
                count("keff_branch_dollars_total", dollars, branch=branch.name)

    def _path(self, job: RequestJob, choice: Object, body: Object, read: PathReading) -> PathResult:
        confidence = float("nan")
        if job.reads_logprobs:
            summary = with_answer(summarize(*tokens_of(choice)), read.answer)
            confidence = logprob_of(summary, confidence_of(job.policy))
            if not job.ask.logprobs:
                choice = {name: value for name, value in choice.items() if name != "logprobs"}
        return PathResult(choice, body, read.key, read.truncated, confidence, read.readings, read.unread)

    def _reply(self, job: RequestJob, outcome: Outcome, voted_on: Object | None) -> Object:
        if outcome.cause == "free_text" and self.options.free_text == "refuse":
            line = "keff found no answer in any path: to get the text as it is, set keff.policy to off"
            raise Problem(422, line, code="no_answer")
        if outcome.undecided and self.options.strict:
            line = f"{outcome.unread} answers could not be read in time and may decide this vote: ask again"
            raise Problem(503, line, code="undecided")
        usage, bill = total_usage(outcome.returned)
        priced = self.priced and job.priced
        dollars = job.dollars if priced else None
        told = vote_object(outcome, job.policy.spec, job.stale, bill, job.uncounted, dollars)
        told["greedy"] = job.greedy
        if outcome.cancelled:
            spent = job.cut_dollars if priced else None
            fields(told["cost"])["cancelled"] = {"tokens": job.cut_tokens, "dollars": spent}
        if voted_on is not None:
            told["fields"] = voted_on
        if job.by_branch is not None:
            told |= job.by_branch.told(outcome, job.policy, self.metrics)
            fields(told["cost"])["dollars"] = job.by_branch.dollars
        job.share = vote_share(outcome)
        if job.by_branch is not None and (down := job.by_branch.down):
            # The rule of the branches that are there was not satisfied, or never asked: only their votes are.
            told["weight"] = {"value": job.share, "kind": "vote_share", "without": list(down)}
        if job.ask.wish.return_paths:
            told["all_paths"] = all_paths(outcome.paths)
        path = winner(outcome, self.options.reply)
        if not job.ask.in_chat:
            return response(job.name, path, usage, told, job.ask.asked)
        others = [each for each in outcome.returned if each is not path]
        if job.greedy:
            # Who asks for several choices of a greedy request gets what every path would have said.
            others = [path] * (job.ask.n - 1)
        return completion(job.name, [path, *others[: job.ask.n - 1]], usage, told)

    def _note(self, job: RequestJob, outcome: Outcome) -> None:
        keys = [path.key for path in outcome.paths]
        job.stop, job.paths = outcome.cause, len(keys)
        job.unread, job.undecided, job.repeated = outcome.unread, outcome.undecided, outcome.repeated
        outcome.count(self.metrics)
        if not (job.shadow and outcome.cause == "policy"):
            self._write(job, keys)
        # Unread answers are no abstentions: the alarm does not take them for a change of the model, nor a
        # cache for one.
        regular = job.regular and not outcome.unread and not outcome.repeated
        if regular:
            self.shadows.count(len(keys))
        self.ledger.add_vote(tuple(keys), job.kind, job.stop, outcome.failed, regular=regular)

    def _write(self, job: RequestJob, keys: list[str | None], *, shadow: bool = False) -> None:
        if self.vote_log is None:
            return
        rest = {"policy": job.policy.spec, "paths": job.paths, "stop": job.stop, "stale": job.stale}
        if job.unread:
            rest["unread"] = job.unread
        try:
            self.vote_log.write(job.name, keys, **rest, shadow=shadow)
        except OSError:
            self.metrics.count("keff_vote_log_errors_total")

    async def _shadow(self, job: RequestJob, vote: Vote, reply: RequestCost) -> None:
        """Draw more paths for a request after its reply, and log all its votes and what they cost."""
        wanted = max(self.shadows.wanted, job.paths)
        try:
            keys = await vote.extend(wanted)
        finally:
            whole = job.so_far(priced=self.priced and job.priced)
            self.shadows.drew(whole.started - reply.started)
            self.ledger.traffic.add_shadow_cost(reply, whole)
        self.metrics.count("keff_paths_total", len(keys) - job.paths, became="shadow")
        self._write(job, keys, shadow=True)
        if job.regular and len(keys) == wanted:
            self.ledger.add_shadow(tuple(keys))

    async def close(self) -> None:
        """Cancel shadow draws, save persistent state, and close."""
        await self.shadows.close()
        await self.ledger.close()
        if self.vote_log is not None:
            self.vote_log.close()
        if self.tracer is not None:
            await asyncio.to_thread(self.tracer.close)
        self.pool.close()
        self.policies.close()
        for server in self.servers:
            await server.close()

    def states(self) -> States:
        """Return the health of each branch of the plan and each upstream server."""
        servers = {url: state for fleet in self.servers for url, state in fleet.states().items()}
        branches = {} if self.served is None else self.served.states()
        return {"branches": branches, "servers": servers if len(servers) > 1 else {}}

    @property
    def servers(self) -> Sequence[Fleet]:
        """The distinct upstream servers."""
        branches = () if self.served is None else self.served.servers
        return list(dict.fromkeys([*branches, self.upstream]))
