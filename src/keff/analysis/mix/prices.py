"""Cost of each recorded path by branch: dollars by its tokens, else tokens, else one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from keff.analysis.money import check_counts, complete, path_dollars, prompt_notes
from keff.errors import UsageError
from keff.reading.join import Aligned, AlignedBranch
from keff.records import Note, frozen
from keff.sampling.cost import Price, price_of
from keff.stats.votes import FloatArray

Unit = Literal["dollars", "tokens", "paths"]


@frozen
class Costs:
    """The cost of every recorded path [n, K_a] of each branch, in ``unit``."""

    paths: tuple[FloatArray, ...]
    unit: Unit
    notes: tuple[Note, ...] = ()


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
        every = (np.full(branch.votes.scored().shape, float(per_path)) for branch in group.branches)
        return Costs(tuple(every), "dollars")
    if prices is None:
        tokens = {branch.name: complete(branch.votes).tokens for branch in group.branches}
        without = [name for name, counted in tokens.items() if counted is None]
        if not without:
            return Costs(tuple(each for each in tokens.values() if each is not None), "tokens")
        text = f"keff counts cost in paths, since there are no tokens for {', '.join(without)}"
        ones = tuple(np.ones(branch.votes.scored().shape) for branch in group.branches)
        return Costs(ones, "paths", (Note("cost_in_paths", text),))
    known = named_prices([(branch.name, branch.model) for branch in group.branches], prices)
    paths = tuple(_dollars(branch, known[branch.name]) for branch in group.branches)
    if not any(cost.any() for cost in paths):
        raise UsageError("every path costs 0 at these prices: leave --prices out to count tokens or paths")
    unpriced = [b.name for b in group.branches if prompt_notes(b.votes, b.name, known[b.name])]
    notes: list[Note] = []
    if unpriced:
        text = f"there are no prompt tokens for {', '.join(unpriced)}, so keff does not price them"
        notes.append(Note("prompts_not_priced", text))
    free = [branch.name for branch, cost in zip(group.branches, paths, strict=True) if not cost.any()]
    if free:
        text = f"paths of {', '.join(free)} cost 0 at these prices"
        notes.append(Note("free_branch", text))
    return Costs(paths, "dollars", tuple(notes))


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


def _dollars(branch: AlignedBranch, price: Price) -> FloatArray:
    votes = complete(branch.votes)
    check_counts(votes, branch.name, price, "the price table")
    return path_dollars(votes, price)
