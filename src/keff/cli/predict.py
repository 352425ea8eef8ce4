"""Calculator: K_eff, its ceiling and majority votes."""

from __future__ import annotations

from typing import Annotated

import typer

from keff.cli import _console
from keff.cli import _options as o
from keff.errors import UsageError
from keff.stats.betabinomial import majority_beta_binomial, majority_limit
from keff.stats.choose import k_star
from keff.stats.diversity import ceiling, k_eff, percent_of_ceiling
from keff.stats.majority import majority_binomial


def command(
    p: Annotated[float, typer.Option("--p", min=0, max=1, help="Accuracy of one path.")],
    c: Annotated[float, typer.Option("--c", max=1, help="Correctness correlation of two paths.")],
    k: Annotated[int, typer.Option("--k", min=1, help="Paths an item.")],
    epsilon: o.Epsilon = 0.025,
    k_max: o.KMax = 32,
    json: o.Json = False,
) -> None:
    """Print what the formulas say, in full precision with --json."""
    try:
        facts = {
            "p": p,
            "c": c,
            "k": k,
            "k_eff": float(k_eff(k, c)),
            "ceiling": float(ceiling(c)),
            "percent_of_ceiling": float(percent_of_ceiling(k, c)),
            "beta_binomial": float(majority_beta_binomial(k, p, c)),
            "binomial": float(majority_binomial(k, p)),
            "limit": majority_limit(p, c) if c >= 0 else None,
            "k_star": int(k_star(c, epsilon=epsilon, k_max=k_max)),
            "epsilon": epsilon,
            "k_max": k_max,
        }
    except ValueError as error:
        raise UsageError(str(error)) from None
    if json:
        _console.print_json(facts)
        return
    ceiling_text = "no ceiling" if facts["ceiling"] == float("inf") else f"{facts['ceiling']:.2f}"
    typer.echo(f"{k} paths are worth {facts['k_eff']:.2f} independent ones (ceiling {ceiling_text})")
    typer.echo(
        f"majority vote: {facts['beta_binomial']:.2%} beta-binomial, {facts['binomial']:.2%} if independent"
    )
    typer.echo(f"K* = {facts['k_star']} (epsilon {epsilon}, at most {k_max})")
