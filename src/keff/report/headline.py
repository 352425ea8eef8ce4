"""The page's words: the decision, headline figures, and a sentence for each chart."""

from __future__ import annotations

from collections.abc import Mapping

from keff.analysis.results.decision import Bill, Decision, Seconds
from keff.analysis.results.estimates import Analysis
from keff.analysis.results.words import (
    count,
    first_sentence,
    in_words,
    points,
    reference_words,
    relative,
    signed_dollars,
    surely,
    why,
)
from keff.records import Interval, frozen, number
from keff.stats.votes import Votes

TONES = {"vote": "go", "ask once": "go"}


@frozen
class Tile:
    """One headline figure with label and explanation."""

    label: str
    value: str
    detail: str


@frozen
class Headline:
    """The page's top: verdict with tone, sentence, rule, reason, and figures.

    ``rule`` is what is copied, ``words`` what it does; ``why`` are sentences, of an open verdict also what is
    settled; ``saved`` is the number of the overview.
    """

    tone: str
    badge: str
    sentence: str
    rule: str
    words: str
    why: tuple[str, ...]
    saved: str
    tiles: tuple[Tile, ...]


def headline(decision: Decision, bill: Bill | None, seconds: Seconds | None) -> Headline:
    """Return the page's top for an analysis."""
    saved = _saved(decision)
    verdict = decision.verdict or "no decision"
    return Headline(
        tone=TONES.get(verdict, "wait"),
        badge=f"{verdict[0].upper()}{verdict[1:]}",
        sentence=first_sentence(decision),
        rule=decision.policy,
        words=in_words(decision.policy, finer=True),
        why=tuple(why(decision)),
        saved=saved.value,
        tiles=(_kept(decision), saved, *_money(decision, bill), *_seconds(decision, seconds)),
    )


def _kept(decision: Decision) -> Tile:
    kept, today = decision.kept, reference_words(decision.reference)
    if kept is not None and kept.limits is not None:
        how = "" if decision.measured else "predicted beyond the recorded paths; "
        detail = f"{how}95% interval over questions like these{surely(kept)}"
        return Tile(f"Accuracy kept, of {today}", kept.percent(), detail)
    if decision.accuracy is not None:
        return Tile(
            "Accuracy expected", decision.accuracy.percent(), "95% interval over questions like these"
        )
    if decision.agreement is None:
        return Tile(f"Same answer as {today}", "unknown", "without a decision nothing is replayed")
    detail = "replayed on this record; without gold answers accuracy cannot be known"
    return Tile(f"Same answer as {today}", decision.agreement.percent(), detail)


def _saved(decision: Decision) -> Tile:
    # As the sentence above it: paths in flight save tokens of paths that are begun all the same.
    what = "paths" if relative(decision, "tokens") is None else "tokens"
    paths, change = decision.expected_paths, relative(decision, what)
    if paths is None or change is None or decision.change.paths is None:
        return Tile("Paths saved", "unknown", "without a decision nothing is replayed")
    before = paths.value - decision.change.paths.value
    label = (
        f"{what.title()} {'saved' if change <= 0 else 'added'}, against {reference_words(decision.reference)}"
    )
    tokens = decision.expected_tokens
    spent = "" if tokens is None else f", {tokens.value:,.0f} tokens"
    accuracy = "" if decision.change.points is None else f"; accuracy {points(decision.change.points)} points"
    detail = f"{count(paths.value)}{spent} per question expected, instead of {before:.3g}{accuracy}"
    return Tile(label, f"{abs(change):.0%}", detail)


def _money(decision: Decision, bill: Bill | None) -> tuple[Tile, ...]:
    """Return the cost per thousand questions, where priced."""
    dollars = decision.change.dollars
    if bill is None or bill.per_1000 is None:
        return ()
    against = ""
    if dollars is not None:
        against = f", {signed_dollars(1000 * dollars.value)} against {reference_words(decision.reference)}"
    detail = f"at the prices of {bill.model}{against}"
    return (Tile("Dollars per 1,000 questions", f"${bill.per_1000.text('.3g')}", detail),)


def _seconds(decision: Decision, seconds: Seconds | None) -> tuple[Tile, ...]:
    """Return the 95th percentile of time to answer, where recorded."""
    change = decision.change.p95
    if seconds is None or seconds.p95 is None:
        return ()
    style = ".0f" if seconds.p95.value >= 100 else ".1f"
    median = "" if seconds.p50 is None else f"median {seconds.p50.text(style)}, "
    against = ""
    if change is not None:
        against = f"; {change.value:+{style}} s against {reference_words(decision.reference)}"
    detail = f"{median}rounds one after the other{against}"
    return (Tile("Seconds to answer, 95th percentile", seconds.p95.text(style), detail),)


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
