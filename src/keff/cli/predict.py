"""Calculator: K_eff, its ceiling and majority votes."""

from __future__ import annotations

import typer

from keff.analysis.predict import predict
from keff.cli import _console
from keff.cli import _options as o
from keff.cli import _sample_options as s


def command(
    p: o.Accuracy,
    c: o.Correlation,
    k: s.K,
    epsilon: o.Epsilon = 0.025,
    cap: o.Cap = 32,
    answers: o.AnswerCount = None,
    json: o.Json = False,
) -> None:
    """Print what the formulas say, in full precision with --json."""
    found = predict(p, c, k, epsilon=epsilon, k_max=cap, answers=answers)
    if json:
        _console.print_json(found.to_dict())
        return
    ceiling = "no ceiling" if found.ceiling == float("inf") else f"{found.ceiling:.2f}"
    typer.echo(f"{k} paths carry as much evidence as {found.k_eff:.2f} independent ones (ceiling {ceiling})")
    typer.echo(f"majority vote: {found.beta_binomial:.2%} beta-binomial, {found.binomial:.2%} if independent")
    if found.copula is not None:
        typer.echo(
            f"Gaussian surrogate: scores correlate by {found.rho_d:.3f}, "
            f"effective rank {found.k_eff_rank:.2f}, majority vote {found.copula:.2%}"
        )
    if answers is not None:
        typer.echo(
            f"among {answers} answers (heuristic): p' = {found.p_multiclass:.3f}, vote {found.multiclass:.2%}"
        )
    typer.echo(f"K* = {found.k_star} (epsilon {epsilon}, at most {cap})")
