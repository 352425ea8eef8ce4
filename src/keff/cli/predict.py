"""Calculator: K_eff, its ceiling and majority votes.

From the accuracy p of a path and the correlation c of two, by the paper's formulas.

Example: keff predict --p 0.8 --c 0.6 --k 32
"""

from __future__ import annotations

from keff.analysis.predict import predict
from keff.cli import _options as o
from keff.cli import _sample_options as s
from keff.cli._console import say, tell
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
    tell(law, json=json)
    if law.pilot is not None and not json:
        say(_pilot(law.pilot))


def _pilot(design: PilotDesign) -> str:
    """Print the pilot that measures c best, and the precision of the paper's pilot."""
    best = f"at least {MOST}" if design.k == MOST else str(design.k)
    return (
        f"With a fixed number of paths in all, a pilot measures c best with {best} paths per question "
        f"({design.exact:.1f}). With 4, as in the paper, the error of c is {design.loss[4]:.0%} larger, with "
        f"8 {design.loss[8]:.0%}. That is best for c. To see what votes gain, draw at least 8."
    )
