"""Cost of the paths of each branch: dollars by its tokens, else tokens, else one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from keff.analysis.money import Rates, Tariff, complete, path_dollars, rates
from keff.analysis.walks import PolicyOutcome, reference_of
from keff.analysis.workload import Workload
from keff.errors import UsageError
from keff.policy import Policy
from keff.reading.join import Aligned
from keff.records import Note, frozen
from keff.sampling.cost import Price, price_of
from keff.stats.votes import FloatArray, Votes

Unit = Literal["dollars", "tokens", "paths"]


@frozen
class Costs:
    """What the paths of each branch cost, in ``unit``.

    ``paths`` are the costs of every recorded path [n, K_a], each a request of its own; ``rates`` the prices
    of each branch and ``recorded`` what its record cost, where the unit is dollars.
    """

    paths: tuple[FloatArray, ...]
    unit: Unit
    rates: tuple[Rates, ...] | None = None
    recorded: tuple[float, ...] = ()
    notes: tuple[Note, ...] = ()

    def record_cost(self, branch: int) -> float:
        """Return what drawing the record of a branch cost, with prompts as billed."""
        return float(self.paths[branch].sum()) if self.rates is None else self.recorded[branch]

    def of(self, found: PolicyOutcome) -> FloatArray:
        """Return the cost of a replayed rule by row."""
        return np.asarray(getattr(found, self.unit))

    def path_and_prompt_costs(self, branch: int) -> tuple[FloatArray, FloatArray | None]:
        """Return the costs of a branch's paths without prompts [n, K_a], and those of prompts [2, n]."""
        if self.rates is None:
            return self.paths[branch], None
        prompts = self.rates[branch].prompts
        return self.paths[branch] - prompts[0][:, None], prompts if prompts.any() else None

    def workload(self, branch: int, votes: Votes, rules: Sequence[Policy], most: int, seed: int) -> Workload:
        """Return a branch and its rules as they are replayed alone where ``most`` paths are drawn today."""
        prices = None if self.rates is None else self.rates[branch]
        return Workload.of(complete(votes), rules, reference_of(str(most), votes.k), prices, seed=seed)


def path_costs(group: Aligned, prices: Mapping[str, Price] | None, per_path: float | None = None) -> Costs:
    """Price every path: dollars with a price table or ``per_path``, else output tokens, else one path each.

    A price is looked up by the name of the branch, then by its model, each by the longest name in the
    table that begins it. Prompts that a record does not count are not priced, which a note says. Raises
    UsageError for two ways to price a path, when some branches have no price, when a price by tokens meets a
    record without tokens, and when nothing costs anything.
    """
    if per_path is not None:
        if prices is not None:
            raise UsageError("--cost-per-path and --prices both price a path: keep one of them")
        if per_path <= 0:
            raise UsageError("every path costs 0 at --cost-per-path 0: leave it out")
        prices = dict.fromkeys(group.names, Price(path=per_path))
    every = [complete(branch.votes) for branch in group.branches]
    if prices is None:
        tokens = {name: votes.tokens for name, votes in zip(group.names, every, strict=True)}
        without = [name for name, counted in tokens.items() if counted is None]
        if not without:
            return Costs(tuple(each for each in tokens.values() if each is not None), "tokens")
        text = f"keff counts cost in paths, since there are no tokens for {', '.join(without)}"
        ones = tuple(np.ones((votes.n, votes.k)) for votes in every)
        return Costs(ones, "paths", notes=(Note("cost_in_paths", text),))
    known = named_prices([(branch.name, branch.model) for branch in group.branches], prices)
    found = [
        rates(votes, name, Tariff({name: price}))
        for (name, price), votes in zip(known.items(), every, strict=True)
    ]
    paths = tuple(path_dollars(votes, own.price) for votes, own in zip(every, found, strict=True))
    if not any(cost.any() for cost in paths):
        raise UsageError("every path costs 0 at these prices: leave --prices out to count tokens or paths")
    notes: list[Note] = []
    if unpriced := [own.model for own in found if own.notes]:
        text = f"there are no prompt tokens for {', '.join(unpriced)}, so keff does not price them"
        notes.append(Note("prompts_not_priced", text))
    if free := [name for name, cost in zip(known, paths, strict=True) if not cost.any()]:
        text = f"paths of {', '.join(free)} cost 0 at these prices"
        notes.append(Note("free_branch", text))
    recorded = tuple(own.cost_of_record(votes) for votes, own in zip(every, found, strict=True))
    return Costs(paths, "dollars", tuple(found), recorded, tuple(notes))


def named_prices(branches: Sequence[tuple[str, str | None]], prices: Mapping[str, Price]) -> dict[str, Price]:
    """Return the price of every branch (its name and model); UsageError where one has none."""
    found = {
        name: price
        for name, model in branches
        if (price := price_of(name, prices) or price_of(model, prices)) is not None
    }
    missing = [name for name, _ in branches if name not in found]
    if missing:
        raise UsageError(
            f"no price for {', '.join(missing)}: a comparison needs one for every branch "
            f"(the table has {', '.join(prices) or 'none'})"
        )
    return found
