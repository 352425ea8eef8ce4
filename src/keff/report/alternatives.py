"""What each chart shows, in a sentence for those who do not see it."""

from __future__ import annotations

from collections.abc import Mapping

from keff.analysis.results.estimates import Analysis
from keff.records import Interval
from keff.result import number
from keff.stats.votes import Votes


def alternatives(found: Analysis, votes: Votes) -> dict[str, str]:
    """Return the alternative text of every chart of a run by its name."""
    fixed = f"Accuracy against cost. {_curve(found)} {_advice(found)}"
    return {
        "gain": f"Accuracy of the vote against the number of paths. {_curve(found)} {_advice(found)}",
        "saturation": f"Plurality, majority and their models against the number of paths. {_curve(found)}",
        "stability": _stability(found),
        "worth": _worth(found),
        "difficulty": _difficulty(votes),
        "frontier_tokens": fixed,
        "frontier_paths": fixed,
        "dollars": f"Accuracy against dollars per question. {_curve(found)} {_advice(found)}",
        "seconds": f"Accuracy against the seconds that 95% of answers take. {_curve(found)} {_advice(found)}",
        "slots": "Accuracy and share of missing answers of each template slot.",
    }


def _curve(found: Analysis) -> str:
    curve = found.plurality or found.majority
    if curve is None:
        return ""
    name = "plurality" if found.plurality else "majority"
    text = f"The {name} goes from {curve[1]:.1%} with one path to {curve[found.k]:.1%} with {found.k}."
    return text + _ahead(found.predicted and found.predicted.plurality, found)


def _ahead(predicted: Mapping[int, Interval] | None, found: Analysis) -> str:
    last = None if predicted is None or found.cap <= found.k else predicted.get(found.cap)
    return "" if last is None else f" At {found.cap} paths it is predicted to be {last.percent()}."


def _advice(found: Analysis) -> str:
    advice = found.recommendation
    if advice.expected_paths is None or advice.expected_plurality is None:
        return ""
    accuracy = advice.expected_plurality.percent()
    return f"The recommendation draws {advice.expected_paths:.1f} paths per question and reaches {accuracy}."


def _stability(found: Analysis) -> str:
    text = f"How often the answer after fewer paths is that of all {found.k} paths."
    if not found.flip:
        return text
    half = max(found.k // 2, 1)
    one, some = 1 - found.flip[1], 1 - found.flip[half]
    return f"{text} After 1 path in {one:.0%} of questions, after {half} in {some:.0%}."


def _worth(found: Analysis) -> str:
    worth, ceiling = (number(value and value.value) for value in (found.k_eff, found.ceiling))
    return f"What K paths are worth: {found.k} as much as {worth} independent ones; the ceiling is {ceiling}."


def _difficulty(votes: Votes) -> str:
    text = "Questions by the share of their paths that are right, with the fitted beta-binomial."
    if votes.correct is None:
        return text
    never, always = int(votes.hist[0]), int(votes.hist[-1])
    return f"{text} On {never:,} of {votes.n:,} no path is right, on {always:,} every path is."
