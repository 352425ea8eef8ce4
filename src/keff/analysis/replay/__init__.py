"""The same policies over recorded paths: what each costs and keeps, at matched compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keff.analysis.replay.compare import Fixed, bootstrap, item_columns, mark_frontier, means_of, row
from keff.analysis.replay.outcomes import Outcome, expectations, run
from keff.analysis.replay.refit import Pilot, Refitter
from keff.errors import PolicyError
from keff.policy import Fittable, Policy, parse_policy
from keff.stats.draws import Draws, permuted
from keff.stats.plurality import plurality_at_k_items
from keff.stats.votes import Votes

MOST_ORDERS, FEWEST_ORDERS = 200, 16
ORDERS_IN_ALL = 100_000


@dataclass(frozen=True, slots=True)
class Settings:
    """How to replay: the ``cap`` that accuracy is compared with (default: 32, or all recorded paths if
    fewer), bootstrap ``replicates``, the ``pilot`` of policies that are fitted (default: min(50, n/2) items
    x 8 paths), and whether template slots are drawn at random in deployment (``random_slots``)."""

    cap: int | None = None
    replicates: int = 1000
    pilot: Pilot | None = None
    random_slots: bool = False


def replay(
    votes: Votes, policies: Sequence[str | Policy], rng: np.random.Generator, settings: Settings | None = None
) -> dict[str, Any]:
    """Return the object of ``keff replay --json``: one row a policy, in the order given.

    Fixed K in closed form; every other policy over the same random orders of drawing without replacement.
    Ties are split. ``accuracy``, ``kept`` (share of the accuracy of plurality at the cap) and
    ``delta_at_equal_cost`` (against fixed K randomised to the same mean tokens, or paths) carry 95% paired
    cluster-bootstrap intervals. Fitted policies are fitted to pilots disjoint from the questions they are
    judged on, anew in every replicate. Raises PolicyError for a cap above the recorded K, for fields that
    are missing, and for template slots, which are not exchangeable.
    """
    settings = settings or Settings()
    rules = [parse_policy(one) if isinstance(one, str) else one for one in policies]
    _check(votes, rules, settings)
    bench = Bench.of(votes, rules, settings.cap or min(32, votes.k), rng)
    pilot = settings.pilot or Pilot(max(1, min(50, votes.n // 2)), min(8, votes.k))
    rows = [bench.judge(rule, settings.replicates, pilot) for rule in rules]
    mark_frontier(rows)
    return {
        "n": votes.n,
        "k": votes.k,
        "cap": bench.fixed.cap,
        "clusters": votes.n_clusters,
        "policies": rows,
    }


def _check(votes: Votes, rules: list[Policy], settings: Settings) -> None:
    if votes.answers is None:
        raise PolicyError("these records hold no answers, only correctness: a vote cannot be replayed")
    if votes.slots is not None and len(np.unique(votes.slots)) > 1 and not settings.random_slots:
        raise PolicyError(
            "the paths come from different template slots and are not exchangeable: replay the paths of one "
            f"slot (PATH#{int(votes.slots[0])}), or say that deployment draws its slots at random (--random-slots)"
        )
    fitted = [rule.spec for rule in rules if isinstance(rule, Fittable) and not rule.fitted]
    if fitted and votes.n_clusters < 2:
        raise PolicyError(f"{fitted[0]} is fitted on other questions than it is judged on: one is not enough")
    for needed, who in [(settings.cap or 1, "the cap"), *((rule.cap, rule.spec) for rule in rules)]:
        if needed > votes.k:
            joint = f"use at most {votes.k}"
            if who.partition(":")[0] != "fixed" and "cap=" not in who and who != "the cap":
                joint = f"write {who} with cap={votes.k}"
            raise PolicyError(f"{who} may draw {needed} paths and the records hold {votes.k}: {joint}")


@dataclass
class Bench:
    """Recorded paths in many orders, with the closed-form curve of fixed K and what was found before."""

    votes: Votes
    draws: Draws
    fixed: Fixed
    rng: np.random.Generator
    known: dict[str, Outcome]

    @classmethod
    def of(cls, votes: Votes, rules: list[Policy], cap: int, rng: np.random.Generator) -> Bench:
        """Draw the orders: 200 of each item, fewer when there are more than 500 items."""
        longest = max([cap, *(rule.cap for rule in rules)])
        orders = int(np.clip(ORDERS_IN_ALL // votes.n, FEWEST_ORDERS, MOST_ORDERS))
        draws = permuted(votes, longest, orders, rng)
        unit = np.ones(votes.n) if votes.tokens is None else votes.tokens.mean(axis=1)
        if votes.correct is None:
            return cls(votes, draws, Fixed(None, unit, cap), rng, {})
        exact = plurality_at_k_items(votes)[:, :longest]
        return cls(votes, draws, Fixed(exact, unit, cap), rng, {})

    def outcome(self, policy: Policy) -> Outcome:
        """Return what a policy does on each item; a policy with the same spec is looked up."""
        if policy.spec not in self.known:
            self.known[policy.spec] = self._outcome(policy)
        return self.known[policy.spec]

    def _outcome(self, policy: Policy) -> Outcome:
        found = expectations(run(policy, self.draws), self.draws, self.fixed.cap)
        credit = self.draws.tallies.credit
        if found.accuracy is None or credit is None or self.fixed.accuracy is None:
            return found
        if (
            np.all(found.paths == policy.cap)
            and policy.spec.startswith("fixed:")
            and "weight=" not in policy.spec
        ):
            tokens = None if found.tokens is None else self.fixed.unit * policy.cap
            return replace(found, accuracy=self.fixed.accuracy[:, policy.cap - 1], tokens=tokens)
        # What the drawn orders are off at its cap, they are off alike for a policy that ends near it.
        drawn = credit[:, :, policy.cap].mean(axis=1, dtype=np.float64)
        return replace(found, accuracy=found.accuracy + self.fixed.accuracy[:, policy.cap - 1] - drawn)

    def judge(self, policy: Policy, replicates: int, pilot: Pilot) -> dict[str, Any]:
        """Return the row of one policy."""
        refitter = None
        if isinstance(policy, Fittable) and not policy.fitted:
            refitter = Refitter(self.votes, policy, pilot, self.outcome, self.rng)
        point = spread = None
        if refitter is not None:
            found, point = refitter.splits(self.fixed)
        else:
            found = self.outcome(policy)
        several = self.votes.n_clusters > 1 and found.accuracy is not None
        if refitter is not None and several:
            spread = refitter.bootstrap(self.fixed, replicates)
        elif refitter is None and found.accuracy is not None:
            columns = item_columns(found, self.fixed)
            point = means_of(columns.mean(axis=0)[:, None])
            # The same resamples for every policy: rows are paired.
            same = np.random.default_rng(0)
            spread = bootstrap(columns, self.votes, replicates, same) if several else None
        line = row(policy.spec, found, point, spread, self.fixed.cap)
        costs = pilot.costs(line["mean_paths"], "labels" in policy.needs) if refitter else None
        return line | {"pilot": costs}


def markdown(found: dict[str, Any]) -> str:
    """Return the comparison as a Markdown table, accuracy in percent and differences in points."""
    lines = [
        f"{found['n']} items x {found['k']} recorded paths, plurality at {found['cap']} = 100%",
        "",
        "| policy | paths | tokens | rounds | accuracy | kept | at equal cost | frontier |",
        "|---|---:|---:|---:|---:|---:|---:|:-:|",
    ]
    for one in found["policies"]:
        tokens = "" if one["mean_tokens"] is None else f"{one['mean_tokens']:.0f}"
        cells = [
            f"`{one['policy']}`",
            f"{one['mean_paths']:.2f}",
            tokens,
            f"{one['rounds']:.2f}",
            _percent(one["accuracy"], 1),
            _percent(one["kept"], 2),
            _percent(one["delta_at_equal_cost"], 2),
            "yes" if one["frontier"] else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _percent(one: dict[str, float | None] | None, digits: int) -> str:
    if one is None or one["value"] is None:
        return ""
    text = f"{100 * one['value']:.{digits}f}"
    if one["lo"] is None or one["hi"] is None:
        return text
    return f"{text} [{100 * one['lo']:.{digits}f}, {100 * one['hi']:.{digits}f}]"
