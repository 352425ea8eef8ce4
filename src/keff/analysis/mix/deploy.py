"""From findings to the plan that a gateway serves."""

from __future__ import annotations

from keff.analysis.mix.findings import MixFindings
from keff.plan import BranchPlan, Plan
from keff.reading.join import Aligned
from keff.records import Json


def mix_plan(group: Aligned, mix: MixFindings) -> Plan:
    """Return the plan of the recommended policy, with the branches that it may ask.

    A record names the model of a branch and not its server: ``upstream`` and ``key_env`` are left empty,
    for whoever serves the plan to fill in or to give on the command line.
    """
    known = {branch.name: branch for branch in mix.branches}
    branches = tuple(
        BranchPlan(name=name, model=known[name].model, cost_per_path=known[name].cost)
        for name in mix.advice.plan.branches
    )
    return Plan(
        policy=mix.advice.plan.policy,
        space=group.space,
        branches=branches,
        cost_unit=mix.cost_unit,
        estimates=_plain(mix),
    )


def _plain(mix: MixFindings) -> dict[str, Json]:
    """Return the findings without the lists of plans, which a plan does not need."""
    return {key: value for key, value in mix.to_dict().items() if key not in ("frontier", "singles")}
