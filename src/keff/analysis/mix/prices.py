"""What a recorded path of each branch costs: dollars by its tokens, else tokens, else one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from keff.analysis.money import check_counts, complete, path_dollars, prompt_notes
from keff.errors import UsageError
from keff.reading.join import Aligned, AlignedBranch
from keff.records import Note
from keff.sampling.cost import Price, price_of
from keff.stats.votes import FloatArray

Unit = Literal["dollars", "tokens", "paths"]


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of every recorded path [n, K_a] of each branch, in ``unit``."""

    paths: tuple[FloatArray, ...]
    unit: Unit
    notes: tuple[Note, ...] = ()


def path_costs(group: Aligned, prices: Mapping[str, Price] | None) -> Costs:
    """Price every path: dollars with a price table, else output tokens, else one path each.

    A price is looked up by the name of the branch, then by its model, each by the longest name in the
    table that begins it. Prompts that a record does not count are not priced, which a note says. Raises
    UsageError when some branches have no price, when a price by tokens meets a record without tokens, and
    when nothing costs anything.
    """
    if prices is None:
        if all(branch.votes.tokens is not None for branch in group.branches):
            return Costs(tuple(_tokens(branch) for branch in group.branches), "tokens")
        without = [branch.name for branch in group.branches if branch.votes.tokens is None]
        note = Note("cost_in_paths", f"cost is counted in paths: {', '.join(without)} records no tokens")
        return Costs(
            tuple(np.ones_like(b.votes.scored(), np.float64) for b in group.branches), "paths", (note,)
        )
    known = {branch.name: _price(branch, prices) for branch in group.branches}
    missing = [name for name, price in known.items() if price is None]
    if missing:
        raise UsageError(
            f"no price for {', '.join(missing)}: a comparison needs one for every branch "
            f"(the table has {', '.join(prices) or 'none'})"
        )
    paths = tuple(_dollars(b, price) for b in group.branches if (price := known[b.name]) is not None)
    if not any(cost.any() for cost in paths):
        raise UsageError("every path costs 0 at these prices: leave --prices out to count tokens or paths")
    unpriced = [
        branch.name
        for branch in group.branches
        if (price := known[branch.name]) is not None and prompt_notes(branch.votes, branch.name, price)
    ]
    note = Note("prompts_not_priced", f"prompts of {', '.join(unpriced)} are not recorded, and not priced")
    return Costs(paths, "dollars", (note,) if unpriced else ())


def _price(branch: AlignedBranch, prices: Mapping[str, Price]) -> Price | None:
    by_name = price_of(branch.name, prices)
    return price_of(branch.model, prices) if by_name is None else by_name


def _dollars(branch: AlignedBranch, price: Price) -> FloatArray:
    votes = complete(branch.votes)
    check_counts(votes, branch.name, price, "the price table")
    return path_dollars(votes, price)


def _tokens(branch: AlignedBranch) -> FloatArray:
    """Return the tokens of each path; where a path counts none, the branch's mean stands in."""
    assert branch.votes.tokens is not None
    tokens = branch.votes.tokens
    known = np.isfinite(tokens)
    mean = float(tokens[known].mean()) if known.any() else 0.0
    return np.where(known, tokens, mean)
