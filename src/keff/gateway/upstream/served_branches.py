"""Branches of a plan as served: the server of each, and one request's spending on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from typing import cast

from keff.errors import PlanError, UsageError
from keff.gateway.billing import PathEstimate, PriceList, estimated
from keff.gateway.http.request import head_of, with_prompt
from keff.gateway.options import Deployment
from keff.gateway.traffic.metrics import Metrics
from keff.gateway.upstream.answer import Address, ClientHeaders
from keff.gateway.upstream.fleet import Fleet
from keff.gateway.vote.vote import Outcome
from keff.narrow import Fields
from keff.plan import BranchPlan, Plan
from keff.policies.mix import Mix
from keff.policy import Branching, Policy, confidence_of
from keff.protocol.server import Sharing, greedy_field, parameters_taught, taken_by
from keff.records import Json
from keff.sampling.cost import Price, Usage

RequestBody = Fields


@dataclass(slots=True, kw_only=True)
class Branch:
    """One served branch: plan, server, prices, and the most paths of one call.

    ``open``: a client's own key goes to its server, which is the gateway's ``--upstream`` and has none.
    """

    plan: BranchPlan
    upstream: Fleet
    price: Price | None
    sharing: Sharing
    open: bool

    @property
    def name(self) -> str:
        """The branch's name in the policy."""
        return self.plan.name

    def body(self, asked: RequestBody) -> dict[str, object]:
        """Return a request's body rewritten for this branch: model, prompt and sampling."""
        plan, body = self.plan, dict(asked)
        for name in ("model", "temperature", "top_p", "reasoning_effort"):
            if (value := getattr(plan, name)) is not None:
                body[name] = value
        if plan.max_tokens is not None:
            body.pop("max_completion_tokens", None)
            body["max_tokens"] = plan.max_tokens
        messages = cast("Sequence[Fields]", body["messages"])
        body["messages"] = with_prompt(messages, plan.system, plan.template)
        return body

    def headers(self, caller: ClientHeaders) -> dict[str, str]:
        """Return the headers of a call; a client's key is sent to its own server only."""
        return self.upstream.address.headers(caller.at(trusted=self.open))


def board_of(plan: Plan, policy: Policy, deployed: Deployment, prices: PriceList) -> ServedBranches | None:
    """Return the branches that a plan's policy asks, each with its server; None for a single-model plan.

    ``prices`` are those of models, for a branch that has none of its own. Branches of one address, key and
    model share a server and its health. Raises UsageError for a branch without an upstream, and for a key
    that the environment lacks.
    """
    turns: tuple[str, ...] = () if isinstance(policy, Branching) else _turns(plan, policy)
    if isinstance(policy, Branching):
        first = policy.branches[0]
    elif turns:
        first = turns[0]
    else:
        return None
    servers: dict[tuple[Address, str | None], Fleet] = {}
    branches: dict[str, Branch] = {}
    for branch in plan.branches:
        address = _address_of(branch, deployed)
        server = (address, branch.model)
        if server not in servers:
            servers[server] = Fleet(address, deployed.fallback if address == deployed.address else None)
        branches[branch.name] = Branch(
            plan=branch,
            upstream=servers[server],
            price=_price_of(branch, prices),
            sharing=Sharing(deployed.options.upstream_n),
            open=branch.upstream is None,
        )
    skip = deployed.options.branch_down == "skip"
    return ServedBranches(branches, branches[first], skip=skip, turns=turns)


def _turns(plan: Plan, policy: Policy) -> tuple[str, ...]:
    """Return the prompt templates that paths take in turn; raises PlanError where they cannot."""
    names = tuple(branch.name for branch in plan.branches) if plan.slots else ()
    if lacking := [branch.name for branch in plan.branches if names and branch.template is None]:
        raise PlanError(
            f"the plan was measured under {len(names)} prompt templates and lacks the text of {lacking[0]}: "
            "write the template of each branch into the plan, or analyze one template alone (PATH#0)"
        )
    if names and confidence_of(policy) is not None:
        raise PlanError(f"{policy.spec} reads a confidence, which is not served over several templates")
    return names


def _address_of(branch: BranchPlan, deployed: Deployment) -> Address:
    base = deployed.address
    if branch.upstream is None:
        if base is None:
            raise UsageError(
                f"branch {branch.name} names no upstream: give --branch FILE with its base_url, or --upstream"
            )
        return base if branch.key_env is None else replace(base, key=_key(branch, deployed))
    return replace(base or Address(url=""), url=branch.upstream, more=(), key=_key(branch, deployed))


def _key(branch: BranchPlan, deployed: Deployment) -> str:
    if branch.key_env is None:
        return ""
    if branch.key_env not in deployed.keys:
        raise UsageError(f"branch {branch.name}: no key is given for {branch.key_env}")
    return deployed.keys[branch.key_env]


def _price_of(branch: BranchPlan, prices: PriceList) -> Price | None:
    if branch.prompt_price is None and branch.output_price is None:
        return prices.of(branch.model)
    return Price(prompt=branch.prompt_price or 0, output=branch.output_price or 0)


@dataclass(slots=True)
class BranchUsage:
    """Paths and usage that one request drew from one branch."""

    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    dollars: float = 0.0


class ServedBranches:
    """All branches of a plan; ``default`` answers requests with a single-model policy.

    ``turns`` names the prompt templates that paths take in turn under a policy that names no branch.
    """

    def __init__(
        self, branches: Mapping[str, Branch], default: Branch, *, skip: bool, turns: Sequence[str] = ()
    ) -> None:
        self.branches, self.skip, self.turns = branches, skip, turns
        self._default = default
        self.shares = {name: branch.sharing for name, branch in branches.items()}

    @property
    def servers(self) -> list[Fleet]:
        """The distinct servers."""
        return list(dict.fromkeys(branch.upstream for branch in self.branches.values()))

    @property
    def priced(self) -> bool:
        """Whether any branch has a price."""
        return any(branch.price is not None for branch in self.branches.values())

    def states(self) -> dict[str, str]:
        """Return each branch's state: ``up``, or why it is down."""
        return {name: _state(branch.upstream) for name, branch in self.branches.items()}

    def in_turn(self, policy: Policy) -> list[str]:
        """Return the branch of each path of a policy, where paths take templates in turn; else none."""
        return [] if isinstance(policy, Branching) else list(islice(cycle(self.turns), policy.cap))

    def greedy(self, asked: RequestBody) -> frozenset[str]:
        """Return the branches whose paths of a request are all the same."""
        stated = ("temperature", "top_p")
        bodies = {
            name: {
                **asked,
                **{field: value for field in stated if (value := getattr(branch.plan, field)) is not None},
            }
            for name, branch in self.branches.items()
        }
        return frozenset(name for name, body in bodies.items() if greedy_field(body))

    def first(self, policy: Policy) -> Branch:
        """Return the branch that a policy asks first."""
        return self.branches[policy.branches[0]] if isinstance(policy, Branching) else self._default


def _state(fleet: Fleet) -> str:
    down = [state for state in fleet.states().values() if state != "up"]
    some = f"{len(down)} of {len(fleet.states())} servers " if len(down) < len(fleet.states()) else ""
    return f"{some}{down[0]}" if down else "up"


class BranchLedger:
    """One request's bodies and spending by branch, and why some were given up, in the order of it."""

    def __init__(self, served: ServedBranches, body: RequestBody) -> None:
        self.served, self._body = served, body
        self.bills: dict[str, BranchUsage] = {}
        self.down: dict[str, str] = {}
        self._heads: dict[str, bytes] = {}

    def head(self, branch: Branch) -> bytes:
        """Return the branch's body without its closing brace; raises Problem for what JSON cannot hold."""
        if branch.name not in self._heads:
            body = branch.body(self._body)
            self._heads[branch.name] = head_of(
                taken_by(branch.upstream.taught.get(body.get("model"), {}), body)
            )
        return self._heads[branch.name]

    def learn(self, branch: Branch, refusal: str) -> bool:
        """Return whether a refusal teaches how to ask the branch; then its next body is another."""
        body = branch.body(self._body)
        model = body.get("model")
        known = branch.upstream.taught.get(model, {})
        taught = parameters_taught(taken_by(known, body), refusal, known)
        branch.upstream.teach(model, taught)
        del self._heads[branch.name]
        return bool(taught)

    def bill(self, branch: Branch) -> BranchUsage:
        """Return the usage of one branch."""
        return self.bills.setdefault(branch.name, BranchUsage())

    def estimate(self) -> PathEstimate | None:
        """Return what a path of the dearest branch may cost; None where a branch has no price."""
        found: list[PathEstimate] = []
        for branch in self.served.branches.values():
            if branch.price is None:
                return None
            found.append(estimated(branch.body(self._body), self.head(branch), branch.price))
        return max(found, key=lambda estimate: estimate.tokens)

    @property
    def dollars(self) -> float | None:
        """Total dollars of all branches; None where one has no price."""
        prices = [self.served.branches[name].price for name in self.bills]
        return None if None in prices else sum(bill.dollars for bill in self.bills.values())

    def told(self, outcome: Outcome, policy: Policy, metrics: Metrics) -> dict[str, Json]:
        """Return the reply's section on branches: those asked, in order, with their cost.

        Counts to which branches the request was escalated, and which one settled it.
        """
        order = policy.branches if isinstance(policy, Branching) else self.bills
        asked = [name for name in order if name in self.bills]
        escalated = () if isinstance(policy, Mix) or self.served.turns else asked[1:]
        for name in escalated:
            metrics.count("keff_branch_escalations_total", branch=name)
        settled = outcome.paths[-1].branch or asked[0]
        metrics.count("keff_branch_settled_total", branch=settled)
        told: dict[str, Json] = {
            "branches": [self._line(name, outcome) for name in asked],
            "escalated": bool(escalated),
            "settled_by": settled,
        }
        # Votes of a mix weigh differently: its share is of weight, not of votes.
        return told | {"share": outcome.stop.weight} if isinstance(policy, Mix) else told

    def _line(self, name: str, outcome: Outcome) -> Json:
        branch, bill = self.served.branches[name], self.bills[name]
        mine = [path for path in outcome.paths if path.branch in (name, "")]
        return {
            "name": name,
            "model": branch.plan.model,
            "answered_as": branch.upstream.answered_as,
            "paths": len(mine),
            "abstentions": sum(path.key is None and not path.unread for path in mine),
            "prompt_tokens": bill.usage.prompt,
            "completion_tokens": bill.usage.output,
            "dollars": None if branch.price is None else bill.dollars,
            "down": self.down.get(name),
        }
