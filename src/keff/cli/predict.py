"""Calculator: K_eff, its ceiling and majority votes."""

from __future__ import annotations

from typing import Annotated

import typer

from keff.analysis.predict import predict
from keff.cli import _console
from keff.cli import _options as o


def command(
    p: Annotated[float, typer.Option("--p", min=0, max=1, help="Accuracy of one path.")],
    c: Annotated[float, typer.Option("--c", max=1, help="Correctness correlation of two paths.")],
    k: Annotated[int, typer.Option("--k", min=1, help="Paths an item.")],
    epsilon: o.Epsilon = 0.025,
    k_max: o.KMax = 32,
    json: o.Json = False,
) -> None:
    """Print what the formulas say, in full precision with --json."""
    found = predict(p, c, k, epsilon=epsilon, k_max=k_max)
    if json:
        _console.print_json(found.to_dict())
        return
    ceiling = "no ceiling" if found.ceiling == float("inf") else f"{found.ceiling:.2f}"
    typer.echo(f"{k} paths are worth {found.k_eff:.2f} independent ones (ceiling {ceiling})")
    typer.echo(f"majority vote: {found.beta_binomial:.2%} beta-binomial, {found.binomial:.2%} if independent")
    typer.echo(f"K* = {found.k_star} (epsilon {epsilon}, at most {k_max})")
