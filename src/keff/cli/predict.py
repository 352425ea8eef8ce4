"""Calculator: K_eff, its ceiling and majority votes."""

from __future__ import annotations

from keff.analysis.predict import predict
from keff.cli import _options as o
from keff.cli import _sample_options as s
from keff.cli._console import print_json, say
from keff.stats.voting.choose import MOST, PilotDesign


def command(
    p: o.Accuracy,
    c: o.Correlation,
    k: s.K,
    epsilon: o.Epsilon = 0.025,
    cap: o.Cap = 32,
    answers: o.AnswerCount = None,
    pilot: o.Pilot = False,
    json: o.Json = False,
) -> None:
    """Print what the formulas say, in full precision with --json."""
    law = predict(p, c, k, epsilon=epsilon, k_max=cap, answers=answers, pilot=pilot)
    if json:
        print_json(law.to_dict())
        return
    ceiling = "no ceiling" if law.ceiling == float("inf") else f"{law.ceiling:.2f}"
    say(f"{k} paths carry as much evidence as {law.k_eff:.2f} independent ones (ceiling {ceiling})")
    say(f"majority vote: {law.beta_binomial:.2%} beta-binomial, {law.binomial:.2%} if independent")
    if law.copula is not None:
        scores = f"Gaussian surrogate: scores correlate by {law.rho_d:.3f}, "
        say(f"{scores}effective rank {law.k_eff_rank:.2f}, majority vote {law.copula:.2%}")
    if answers is not None:
        say(f"among {answers} answers (heuristic): p' = {law.p_multiclass:.3f}, vote {law.multiclass:.2%}")
    say(f"K* = {law.k_star} (epsilon {epsilon}, at most {cap})")
    if law.pilot is not None:
        say(_pilot(law.pilot))


def _pilot(design: PilotDesign) -> str:
    """Say which pilot measures c best, what the paper's four paths cost, and what it is not for."""
    best = f"at least {MOST}" if design.k == MOST else str(design.k)
    return (
        f"a pilot of a fixed number of paths measures c best with {best} a question ({design.exact:.1f}); "
        f"4, as in the paper, make its error {design.loss[4]:.0%} larger, 8 {design.loss[8]:.0%}. "
        "That is the best for c, not for the decision: to see how votes gain, draw at least 8"
    )
