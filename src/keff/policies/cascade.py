"""Ask branches in turn: a question that one leaves undecided goes to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from keff.errors import PolicyError
from keff.policies._table import TablePolicy, lookahead
from keff.policies.retry import escalation
from keff.policy import Need, Policy, PolicySpec, Sample, Stop, Tally, View, parse_policy, tally, undecided
from keff.policy.spec import MAX_CAP, parts_of
from keff.policy.weighting import leader_of
from keff.records import frozen
from keff.stats.votes import Int16Array

Keep = Literal["votes", "fresh"]

# What a vote of a fresh stage counts in units of the stage before: more than all of its votes, which so
# decide ties only.
FRESH = 2 * MAX_CAP


@frozen
class Stage:
    """One branch of a cascade with its stopping rule.

    ``ahead`` [C + 1] * 3 over (n, v1, v2) holds the paths to draw next, 0 where the rule is satisfied, and
    more than remain where it no longer can be. ``offset`` is where its n begins: under ``keep=votes`` the
    caps of earlier stages count as drawn, so that a later rule counts their votes too.
    """

    branch: str
    spec: str
    cap: int
    offset: int
    ahead: Int16Array


class Cascade:
    """A cascade of stages: each ends when its rule is met, which ends the vote, or can no longer be.

    ``keep``: ``votes`` counts the votes of earlier stages as one's own; ``fresh`` does not, and uses them
    to break ties only. The last stage ends as its rule does without a cascade.
    """

    needs: frozenset[Need] = frozenset({"answers", "branches"})

    def __init__(self, stages: Sequence[Stage], keep: Keep) -> None:
        self.stages = tuple(stages)
        self.keep: Keep = keep
        self.equal_votes = keep == "votes"
        self.cap = sum(stage.cap for stage in stages)
        shown = "/".join(f"{stage.branch}({stage.spec})" for stage in stages)
        self.spec = f"cascade:{shown}" + (",keep=fresh" if keep == "fresh" else "")
        self._ahead: list[list[list[list[int]]]] = [stage.ahead.tolist() for stage in stages]

    @property
    def branches(self) -> tuple[str, ...]:
        """The branches in order."""
        return tuple(stage.branch for stage in self.stages)

    def decide(self, view: View) -> Sample | Stop:
        """Return the decision by walking the stages along the votes in launch order.

        A stage does not end on a lead that unread answers could turn: it draws up to its cap, and then passes
        the question on. Raises PolicyError when the votes come from other branches than the cascade asked.
        """
        at, weights = 0, list[int]()
        for number, stage in enumerate(self.stages):
            # A fresh stage looks at its own votes; those before them weigh so little that they break ties.
            begin, unit = (at, FRESH**number) if self.keep == "fresh" else (0, 1)
            own, ahead = 0, self._ahead[number]
            while True:
                seen = tally(view.keys[begin:at])
                wanted = ahead[stage.offset + own][seen.v1][seen.v2]
                if wanted == 0 and undecided(view.keys[begin:at], view.unread, seen.leader):
                    wanted = 1 if own < stage.cap or stage is not self.stages[-1] else 0
                if wanted == 0:
                    answer = leader_of(view.keys[:at], weights)
                    return self._stop(stage, answer, seen, at, by_cap=own == stage.cap)
                if wanted > stage.cap - own:
                    break
                taken = len(view.keys[at : at + wanted])
                if view.branches[at : at + taken].count(stage.branch) != taken:
                    line = f"{self.spec}: path {at + 1} should come from branch {stage.branch}"
                    raise PolicyError(line)
                weights += [unit] * taken
                at, own = at + taken, own + taken
                if taken < wanted:
                    return Sample(wanted - taken, (stage.branch,) * (wanted - taken))
        raise AssertionError("the rule of the last stage stops at its cap")

    def _stop(self, stage: Stage, answer: str | None, seen: Tally, drawn: int, *, by_cap: bool) -> Stop:
        votes, total = 0 if answer is None else seen.counts[answer], seen.counts.total()
        why = "the cap" if by_cap else "the lead is enough"
        reason = f"{why} at {stage.branch}: {votes} of {total} votes after {drawn} paths"
        return Stop(answer, votes / total if total else 0.0, "vote_share", reason)


def policy(value: str | None = None, *, keep: str = "votes") -> Policy:
    """Return ``cascade:SMALL(lead_k:2,cap=3)/LARGE(lead_k:2,cap=8),keep=votes|fresh``.

    Every stage takes a rule over counts (``lead_k``, ``fixed``, ``curtailed``, ``budget``, ...), or every one
    ``retry:m``, which a checker ends. A stage
    passes a question on as soon as its rule can no longer be satisfied within its cap. Raises PolicyError
    for other rules, for a duplicate branch, and where the caps exceed 256 paths together.
    """
    if keep not in ("votes", "fresh"):
        raise PolicyError(f"cascade: keep must be votes or fresh, not {keep}")
    parts = parts_of("cascade", value)
    specs = [(branch, PolicySpec.parse(spec)) for branch, spec in parts]
    if any(spec.name == "retry" for _, spec in specs):
        if keep == "fresh":
            raise PolicyError("cascade: retry:m counts no votes: leave keep=fresh out")
        return escalation(specs)
    stages: list[Stage] = []
    offset = 0
    for number, (branch, spec) in enumerate(parts):
        last = number + 1 == len(parts)
        stages.append(make_stage(branch, spec, offset if keep == "votes" else 0, last=last))
        offset += stages[-1].cap
    return Cascade(stages, keep)


def make_stage(branch: str, spec: str, offset: int, *, last: bool) -> Stage:
    """Return a branch's stage, whose rule counts from ``offset`` paths on."""
    own = _rule(spec)
    wide = _rule(_with_cap(own.spec, own.cap + offset)) if offset else own
    ahead = lookahead(wide.stops if last else wide.settles)
    return Stage(branch, own.spec, own.cap, offset, ahead)


def _rule(spec: str | PolicySpec) -> TablePolicy:
    rule = parse_policy(spec)
    if not isinstance(rule, TablePolicy):
        raise PolicyError(f"cascade: a stage takes a rule over counts such as lead_k:2,cap=4, not {spec}")
    return rule


def _with_cap(spec: str, cap: int) -> PolicySpec:
    """Return a rule with this cap, also ``fixed``."""
    if cap > MAX_CAP:
        raise PolicyError(
            f"cascade: its stages may draw {cap} paths together; at most {MAX_CAP} are possible"
        )
    parsed = PolicySpec.parse(spec)
    return PolicySpec("fixed", cap) if parsed.name == "fixed" else parsed.with_cap(cap)
