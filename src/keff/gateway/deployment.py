"""Assembly of a gateway: from deployment options to its service, ledgers and operator pages."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import numpy as np

from keff.errors import UsageError
from keff.gateway.billing import Billing, PriceList
from keff.gateway.http.security import check_exposure
from keff.gateway.options import Deployment
from keff.gateway.service import Service
from keff.gateway.traffic.ledger import Shadows, TrafficLedger, VoteLog
from keff.gateway.traffic.metrics import series
from keff.gateway.traffic.monitor import SHADOW_DRAWS, Monitor, StateFile, first_draw, saved_profile
from keff.gateway.traffic.pages import Numbers, Views
from keff.gateway.traffic.savings import Baseline, GatewayChange, planned_savings
from keff.gateway.traffic.traffic import PER_REQUEST, Learner, Traffic
from keff.gateway.upstream.fleet import Fleet
from keff.gateway.upstream.served_branches import ServedBranches, board_of
from keff.gateway.vote.extraction import reader_of
from keff.gateway.vote.kinds import KindReader
from keff.gateway.vote.request_policy import PlanTerms, RequestPolicies, policy_of_plan, terms_of
from keff.narrow import fields
from keff.plan import Plan
from keff.plugins import import_extra
from keff.policies.retry import reads_verdicts
from keff.policy import Policy, in_flight_of
from keff.protocol.server import Sharing
from keff.sampling.verifier import check_rated

# Paths of a request in a profile at most.
MOST_PROFILED = 16


def service_of(deployment: Deployment, rng: np.random.Generator) -> Service:
    """Return the service of a deployment; raises PlanError for an unservable plan, UsageError for files.

    UsageError too when others could reach the gateway without a token.
    """
    check_exposure(deployment.host, deployment.options)
    options, ignored = deployment.options, frozenset(deployment.options.tool_ignore)
    plan, policy = _plan(deployment), policy_of(deployment)
    prices = PriceList(options.prices)
    served = board_of(plan, policy, deployment, prices)
    reader = None
    # Verdicts alone say nothing of how answers are read, and a checker needs none to be.
    unread = plan.space == PER_REQUEST or (plan.space == "exact" and reads_verdicts(policy))
    if deployment.answer_space is not None or not unread:
        reader = reader_of(plan, deployment.answer_space, ignored)
    if deployment.plan is None and options.strict:
        raise UsageError("strict serves a plan only: name one with --plan")
    if reader is None and options.append_answer_format:
        raise UsageError("append_answer_format needs to know the answer: set --answer-space, or a --plan")
    vote_log, ledger = options.vote_log, ledger_of(deployment)
    tracer = None
    if options.otlp is not None:
        tracer = import_extra("keff.gateway.traffic.tracing", "the setting otlp").Tracer(options.otlp)
    service = Service(
        policy=policy,
        reader=reader,
        terms=_terms(deployment),
        upstream=_upstream(deployment, served),
        trusted=deployment.address is not None,
        served=served,
        policies=RequestPolicies([branch.name for branch in plan.branches], plan.calibrations),
        verifier=deployment.verifier,
        options=options,
        kinds=KindReader(ignored),
        ledger=ledger,
        shadows=Shadows(options, ledger, rng),
        vote_log=None if vote_log is None else VoteLog(vote_log, answers=options.vote_log_answers),
        billing=Billing(prices=prices),
        tracer=tracer,
        sharing=Sharing(options.upstream_n),
        baseline=Baseline.of(options.now, deployment.plan),
    )
    if not service.priced and any(key.dollars_per_day for key in options.client_keys):
        raise UsageError("limits in dollars need prices: name a price list with --prices")
    return service


def policy_of(deployment: Deployment) -> Policy:
    """Return the default policy, for requests that state none; raises PlanError."""
    plan = _plan(deployment)
    policy = policy_of_plan(plan.policy, [branch.name for branch in plan.branches], plan.calibrations)
    check_rated(plan, policy, deployment.verifier and deployment.verifier.stamp)
    return policy


def _plan(deployment: Deployment) -> Plan:
    return deployment.plan or Plan(policy=deployment.policy, space=PER_REQUEST, estimates={})


def ledger_of(deployment: Deployment) -> TrafficLedger:
    """Return the traffic ledger of a deployment, its state file open; raises PlanError and UsageError."""
    policy, file = policy_of(deployment), StateFile(deployment.state) if deployment.state else None
    with ExitStack() as refused:
        if file is not None:
            refused.callback(file.close)
        ledger = _ledger(deployment, policy, file)
        refused.pop_all()
    return ledger


def _ledger(deployment: Deployment, policy: Policy, file: StateFile | None) -> TrafficLedger:
    plan, planless = _plan(deployment), deployment.plan is None
    if planless and file is not None:
        plan = plan.model_copy(update={"profile": saved_profile(file, policy)})
    baseline, decision = Baseline.of(deployment.options.now, deployment.plan), plan.estimates.get("decision")
    change = None
    if baseline is not None:
        planned = planned_savings(fields(decision), policy.spec, baseline)
        change = GatewayChange(baseline, in_flight_of(policy) is not None, planned)
    ledger = TrafficLedger(
        policy=policy,
        state=file,
        traffic=Traffic(change=change),
        learned=planless,
        space=deployment.answer_space or plan.space,
        cap=deployment.options.shadow_paths,
        decision=fields(decision),
    )
    if plan.profile is not None and (planless or deployment.answer_space in (None, plan.space)):
        ledger.monitor = Monitor(plan, policy, file)
    elif planless and (m := first_draw(policy)) <= MOST_PROFILED:
        ledger.learner = Learner(m) if m > 1 else Learner(SHADOW_DRAWS, shadow_only=True)
    return ledger


def views_of(service: Service) -> Views:
    """Return the operator's pages."""

    def numbers() -> Numbers:
        return service.metrics, {series("keff_requests_in_flight"): float(service.in_flight)}

    return Views(service.ledger, numbers, service.states)


def _upstream(deployment: Deployment, served: ServedBranches | None) -> Fleet:
    """Return the server for passed-through requests: the operator's, else the first branch's."""
    home, fallback = deployment.address, deployment.fallback
    if served is None:
        if home is None:
            raise UsageError("name the server that draws the paths: --upstream URL")
        return Fleet(home, fallback)
    first = served.servers[0]
    if home is None and fallback is None:
        return first
    known = (server for server in served.servers if server.address == home)
    return next(known, None) or Fleet(home or first.address, fallback)


def _terms(deployment: Deployment) -> PlanTerms:
    if deployment.plan is not None:
        return terms_of(deployment.plan, deployment.model)
    # Without a plan a request differs from nothing: the model is only what one that names none gets.
    return PlanTerms(upstream=deployment.model)


def check(deployment: Deployment, rng: np.random.Generator) -> dict[str, object]:
    """Check a deployment without opening a file or calling a server, and return its summary.

    Raises what ``serve`` raises before it listens.
    """
    opens_none = deployment.options.model_copy(update={"vote_log": None, "otlp": None})
    return summary(service_of(replace(deployment, state=None, options=opens_none), rng))


def summary(service: Service) -> dict[str, object]:
    """Return what is served, in a few words."""
    monitor, served = service.ledger.monitor, service.served
    return {
        "policy": service.policy.spec,
        "upstream": " ".join(service.upstream.address.urls),
        "branches": None
        if served is None
        else {name: branch.upstream.address.url for name, branch in served.branches.items()},
        "model": service.terms.upstream,
        "drift_paths": None if monitor is None else monitor.m,
    }
