"""The page's first screen, and a sentence for each chart."""

from __future__ import annotations

from collections.abc import Mapping

from keff.analysis.results.bars import BarPair, bar_pairs
from keff.analysis.results.decision import Bill, Decision, Seconds
from keff.analysis.results.estimates import Analysis
from keff.analysis.results.words import (
    answers_in_words,
    cost_in_words,
    first_sentence,
    in_words,
    keeps_today,
    kept_in_words,
    reference_words,
    why,
)
from keff.policy import in_flight_of, parse_policy
from keff.records import Interval, frozen, number
from keff.stats.votes import Votes

TONES = {"vote": "go", "ask once": "go"}


@frozen
class Headline:
    """The first screen: the verdict with its tone, what to do, three pairs of bars, the rule, how sure.

    ``rule`` is what is copied, ``words`` what it does; ``why`` are sentences, of an open verdict also what is
    settled; ``saved`` is what the overview of several runs says.
    """

    tone: str
    badge: str
    sentence: str
    pairs: tuple[BarPair, ...]
    rule: str
    words: str
    sure: str
    why: tuple[str, ...]
    saved: str


def headline(decision: Decision, bill: Bill | None, seconds: Seconds | None) -> Headline:
    """Return the first screen of an analysis."""
    verdict = decision.verdict or "no decision"
    return Headline(
        tone=TONES.get(verdict, "wait"),
        badge=f"{verdict[0].upper()}{verdict[1:]}",
        sentence=_title(decision),
        pairs=tuple(bar_pairs(decision, bill, seconds)),
        rule=decision.policy,
        words=in_words(decision.policy),
        sure=kept_in_words(decision) if decision.kept is not None else "",
        why=tuple(why(decision)),
        saved=cost_in_words(decision) or "unknown",
    )


def _title(decision: Decision) -> str:
    """Return what to do; the figures stand on the bars."""
    paths, today = decision.expected_paths, reference_words(decision.reference)
    if decision.verdict is None or keeps_today(decision) or paths is None:
        return first_sentence(decision)
    if decision.policy == "fixed:1":
        return f"Ask once instead of drawing {today}"
    if flight := in_flight_of(parse_policy(decision.policy)):
        return f"Run {flight.width} at a time instead of {today.removesuffix(' answers')}, and stop early"
    return (
        f"Stop early: {answers_in_words(paths.value)} on average instead of {today.removesuffix(' answers')}"
    )


def alternatives(analysis: Analysis, votes: Votes) -> dict[str, str]:
    """Return the alternative text of each chart of a run, by name."""
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
    paths, accuracy = analysis.decision.expected_paths, analysis.decision.accuracy
    if paths is None or accuracy is None:
        return ""
    return f"The decision draws {paths.value:.1f} paths per question and reaches {accuracy.percent()}."


def _times(analysis: Analysis) -> str:
    rules = [row for row in analysis.decision.timed if row.policy == analysis.decision.policy]
    return "".join(
        f"The decision costs {row.cost:.0%} of today's and takes {row.p50:.0%} of its median and "
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
