"""Options of the gateway in groups: what is served, from where, how a request is answered, to whom."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from keff.answers import settle
from keff.cli import _read_options as r
from keff.cli import _sample_options as s
from keff.cli import _serve_options as o
from keff.cli._served import served_plan
from keff.errors import UsageError
from keff.plan import Plan
from keff.sampling.cost import Price
from keff.sampling.price_table import read_prices


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The servers that draw the paths."""

    upstream: o.UpstreamUrls = None
    upstream_key_env: o.UpstreamKeyEnv = None
    fallback: o.FallbackUrl = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What is served: a plan, or one policy for every request."""

    plan: o.PlanFile = None
    policy: o.ServePolicy = None
    branch: o.ServedBranches = None
    model: o.UpstreamModel = None
    answer_space: r.AnswerSpaceName = None
    answer_key: r.AnswerKey = None
    verifier: s.VerifierFunction = None
    verifier_url: s.VerifierUrl = None
    prices: s.Prices = None
    now: o.NowServed = None

    def read(self) -> tuple[Plan | None, dict[str, Price] | None]:
        """Read the plan, with what is said of its branches, and the prices."""
        plan = None if self.plan is None else Plan.read(self.plan)
        if plan is not None and self.policy is not None:
            raise UsageError("--policy stands without --plan: a plan brings its own policy")
        prices = None if self.prices is None else read_prices(self.prices)
        if self.branch and (plan is None or not plan.branches):
            raise UsageError("--branch says how a branch of the plan is drawn: name a plan with branches")
        if plan is not None and plan.branches:
            plan = served_plan(plan, self.branch or (), prices)
        return plan, prices

    def space(self, plan: Plan | None) -> str | None:
        """Return the answer space that is named, or what the user's own function adds to one."""
        own = r.reading_of(self.answer_space, self.answer_key)
        return settle(own, "exact" if plan is None else plan.space)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteOptions:
    """How one request is answered."""

    in_flight: o.InFlight = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions:
    """Who may ask, and what of a request goes up."""

    token_env: o.TokenEnv = None
    keys: o.Keys = None

    def spend_file(self, named: Path | None) -> Path | None:
        """Return where it is written down what each key spent."""
        if self.keys is None:
            if named is not None:
                raise UsageError("spend keeps what the keys of --keys spend: name that file too")
            return None
        return named or self.keys.with_suffix(".spend.sqlite")


@dataclass(frozen=True, slots=True, kw_only=True)
class BookOptions:
    """What the gateway learns and keeps."""

    state: o.State = None
    cap: o.ShadowCap = None
