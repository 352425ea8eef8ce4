"""Calculator: K_eff, its ceiling and majority votes."""

from __future__ import annotations

import typer

from keff.analysis.predict import predict
from keff.cli import _aim_options as a
from keff.cli import _sample_options as s
from keff.cli import _write_options as w
from keff.cli._json import print_json


def command(
    p: a.Accuracy,
    c: a.Correlation,
    k: s.K,
    epsilon: a.Epsilon = 0.025,
    cap: a.Cap = 32,
    answers: a.AnswerCount = None,
    json: w.Json = False,
) -> None:
    """Print what the formulas say, in full precision with --json."""
    law = predict(p, c, k, epsilon=epsilon, k_max=cap, answers=answers)
    if json:
        print_json(law.to_dict())
        return
    ceiling = "no ceiling" if law.ceiling == float("inf") else f"{law.ceiling:.2f}"
    typer.echo(f"{k} paths carry as much evidence as {law.k_eff:.2f} independent ones (ceiling {ceiling})")
    typer.echo(f"majority vote: {law.beta_binomial:.2%} beta-binomial, {law.binomial:.2%} if independent")
    if law.copula is not None:
        typer.echo(
            f"Gaussian surrogate: scores correlate by {law.rho_d:.3f}, "
            f"effective rank {law.k_eff_rank:.2f}, majority vote {law.copula:.2%}"
        )
    if answers is not None:
        typer.echo(
            f"among {answers} answers (heuristic): p' = {law.p_multiclass:.3f}, vote {law.multiclass:.2%}"
        )
    typer.echo(f"K* = {law.k_star} (epsilon {epsilon}, at most {cap})")
