"""What each chart shows, in a sentence for those who do not see it."""

from __future__ import annotations

from collections.abc import Mapping

from keff.analysis.results.estimates import Analysis
from keff.records import Interval, number
from keff.stats.votes import Votes


def alternatives(analysis: Analysis, votes: Votes) -> dict[str, str]:
    """Return the alternative text of every chart of a run by its name."""
    told = f"{_curve(analysis)} {_advice(analysis)}"
    cost = f"Accuracy against cost. {told}"
    return {
        "gain": f"Accuracy of the vote against the number of paths. {told}",
        "saturation": f"Plurality, majority and their models against the number of paths. {_curve(analysis)}",
        "stability": _stability(analysis),
        "worth": _worth(analysis),
        "difficulty": _difficulty(votes),
        "reliability": _reliability(analysis),
        "frontier_tokens": cost,
        "frontier_paths": cost,
        "dollars": f"Accuracy against dollars per question. {told}",
        "times": f"Cost against the time that 95% of answers take. {_times(analysis)}",
        "slots": "Accuracy and share of missing answers of each template slot.",
    }


def _curve(analysis: Analysis) -> str:
    curve = analysis.plurality or analysis.majority
    if curve is None:
        return ""
    name = "plurality" if analysis.plurality else "majority"
    text = f"The {name} goes from {curve[1]:.1%} with one path to {curve[analysis.k]:.1%} with {analysis.k}."
    return text + _ahead(analysis.predicted and analysis.predicted.plurality, analysis)


def _ahead(predicted: Mapping[int, Interval] | None, analysis: Analysis) -> str:
    last = None if predicted is None or analysis.cap <= analysis.k else predicted.get(analysis.cap)
    return "" if last is None else f" At {analysis.cap} paths it is predicted to be {last.percent()}."


def _advice(analysis: Analysis) -> str:
    advice = analysis.recommendation
    if advice.expected_paths is None or advice.expected_plurality is None:
        return ""
    accuracy = advice.expected_plurality.percent()
    return f"The recommendation draws {advice.expected_paths:.1f} paths per question and reaches {accuracy}."


def _times(analysis: Analysis) -> str:
    rules = [row for row in analysis.decision.timed if row.policy == analysis.decision.policy]
    return "".join(
        f"The recommendation costs {row.cost:.0%} of today's and takes {row.p50:.0%} of its median and "
        f"{row.p95:.0%} of its 95th percentile."
        for row in rules
    )


def _stability(analysis: Analysis) -> str:
    text = f"How often the answer after fewer paths is that of all {analysis.k} paths."
    if not analysis.flip:
        return text
    half = max(analysis.k // 2, 1)
    first, middle = 1 - analysis.flip[1], 1 - analysis.flip[half]
    return f"{text} After 1 path in {first:.0%} of questions, after {half} in {middle:.0%}."


def _worth(analysis: Analysis) -> str:
    worth, ceiling = (number(value and value.value) for value in (analysis.k_eff, analysis.ceiling))
    return (
        f"What K paths are worth: {analysis.k} as much as {worth} independent ones; the ceiling is {ceiling}."
    )


def _difficulty(votes: Votes) -> str:
    text = "Questions by the share of their paths that are right, with the fitted beta-binomial."
    if votes.correct is None:
        return text
    never, always = int(votes.hist[0]), int(votes.hist[-1])
    return f"{text} On {never:,} of {votes.n:,} no path is right, on {always:,} every path is."


def _reliability(analysis: Analysis) -> str:
    worst = [
        f"{found.name}: at most {max(abs(at.chance - at.right) for at in found.reliability):.0%} apart"
        for found in analysis.confidences or ()
        if found.reliability
    ]
    return f"Chances by confidence against what is right, {'; '.join(worst)}."
