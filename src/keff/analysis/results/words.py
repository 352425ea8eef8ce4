"""Sentences of the decision: what a rule does, what it replaces, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from keff import plugins
from keff.analysis.results.decision import Decision, Differences
from keff.errors import KeffError
from keff.policies import TablePolicy
from keff.policies._table import legal
from keff.policies.mix import Mix
from keff.policy import InFlight, InWaves, LogOddsVote, Policy, in_flight_of, parse_policy
from keff.policy.drawing import LEAST_VOTES, GivesUp
from keff.policy.spec import PolicySpec, parts_of
from keff.records import Interval

# Votes are told against at most so many for the next answer: more would not be read.
MOST_DISSENT, MOST_FINER = 2, 5


def in_words(spec: str, *, finer: bool = False) -> str:
    """Return what a policy does, in plain words that name its cap.

    A rule that sees only votes is told by the lead at which it stops, where that says it all, else by the
    votes at which it stops (``finer``: by more of them). Others are told by the first line of their
    documentation.
    """
    if spec == "fixed:1":
        return "Ask once and do not vote."
    try:
        name = PolicySpec.parse(spec).name
        policy = parse_policy(spec)
    except KeffError:
        return ""
    if around := _drawing_in_words(policy, finer=finer):
        return around
    if name == "fixed":
        return f"Always draw {policy.cap} answers, then take the most frequent one."
    if isinstance(policy, Mix):
        shares = " and ".join(f"{share.k} of {share.branch}" for share in policy.shares)
        return f"Draw {shares} in one round, and take the weighted vote."
    if name == "cascade":
        return _by_branches(spec)
    if name == "retry":
        return f"Try again until the checker passes an answer; never try more than {policy.cap} times."
    if name == "curtailed":
        return f"Vote over {policy.cap} answers, stopping as soon as the result is certain."
    if isinstance(policy, TablePolicy):
        return _by_lead(policy) or _by_votes(policy, finer=finer)
    return plugins.summaries("policy").get(name, "")


def _drawing_in_words(policy: Policy, *, finer: bool) -> str:
    """Return the sentences for a rule that draws in waves, in flight, or by confidence; "" for others."""
    if isinstance(policy, InWaves):
        rule = in_words(policy.rule.spec, finer=finer)
        sizes = ", then ".join(map(str, policy.sizes))
        return f"Draw at least {sizes} at a time, and after each wave decide: {lower_first(rule)}"
    if isinstance(policy, GivesUp):
        rule = in_words(policy.rule.spec, finer=finer)
        return f"Give up if the first {policy.paths} answers all differ. {rule}"
    if (flight := in_flight_of(policy)) is not None:
        rule = in_words(flight.rule.spec, finer=finer)
        return f"{rule} Run {flight.width} at a time. {_counting_in_words(flight)}."
    if policy.needs & {"calibration"}:
        return _by_confidence(policy, finer=finer)
    return ""


def _by_branches(spec: str) -> str:
    """Return the sentences for a cascade: the rule of each branch, and whether earlier votes count."""
    parsed = PolicySpec.parse(spec)
    parts = parts_of(parsed.name, parsed.value)
    if len(parts) == 1:
        return in_words(parts[0][1])
    checked = any(rule.startswith("retry") for _, rule in parts)
    others = "If no answer passes, ask" if checked else "If the answer is still open, ask"
    asked = [
        f"{others if place else 'Ask'} {branch}"
        + (" once." if rule in ("fixed:1", "retry:1") else f": {lower_first(in_words(rule))}")
        for place, (branch, rule) in enumerate(parts)
    ]
    if checked:
        return " ".join(asked)
    fresh = dict(parsed.options).get("keep") == "fresh"
    kept = "Each branch looks at its own votes only." if fresh else "Votes of earlier branches count too."
    return f"{' '.join(asked)} {kept}"


def _counting_in_words(flight: InFlight) -> str:
    """Return in words when answers in flight count: in the order of their start, or of their end."""
    if flight.order == "launch":
        return "Answers count in the order they were started"
    free = flight.alone or flight.rule.spec.startswith("curtailed")
    least = "" if free else f", from the {_ordinal(LEAST_VOTES)} on"
    return f"Answers count in the order they finish{least}"


def _ordinal(place: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(place, f"{place}th")


def lower_first(text: str) -> str:
    """Return a sentence with a small first letter, to stand after a colon."""
    return text[:1].lower() + text[1:]


def _by_confidence(policy: Policy, *, finer: bool) -> str:
    if isinstance(policy, LogOddsVote):
        weigh = "Each answer counts by how likely it is to be right, given its confidence."
        if policy.give_up:
            weigh += f" Give up once two or more are right with a mean chance below {policy.give_up:g}."
        return f"{weigh} {in_words(policy.rule.spec, finer=finer)}"
    bar = PolicySpec.parse(policy.spec).value
    likely = f"that is right with a chance of {bar}, given its confidence"
    return f"Take the first answer {likely}; never draw more than {policy.cap}."


def _by_lead(policy: TablePolicy) -> str:
    """Return a table rule as stopping leads by number of paths; "" where it is not of that form."""
    leads: dict[int, int] = {}
    allowed = legal(policy.cap)
    for n in range(1, policy.cap):
        v1, v2 = np.nonzero(allowed[n])
        lead, stops = v1 - v2, policy.stops[n][v1, v2]
        if not stops.any():
            continue
        least = int(lead[stops].min())
        if lead[~stops].max(initial=0) >= least:
            return ""
        if least != next(reversed(leads.values()), 0):
            leads[n] = least
    if not leads or list(leads.values()) != sorted(leads.values(), reverse=True):
        return ""
    parts = [
        f"by {lead}" + (f" from answer {n} on" if n > lead or place else "")
        for place, (n, lead) in enumerate(leads.items())
    ]
    return f"Stop once an answer leads {', or '.join(parts)}; never draw more than {policy.cap}."


def _by_votes(policy: TablePolicy, *, finer: bool) -> str:
    """Return a table rule as the leader's votes that stop it whatever else was drawn.

    Told are votes against at most two for the next answer; ``finer``: against five, and whether other votes
    stop too, after answers to others, abstentions or many paths.
    """
    cap = policy.cap
    before = policy.stops[:cap] & legal(cap)[:cap]
    n, v1 = np.indices(before.shape[:2])
    untold, places = before.copy(), list[str]()
    for against in range(MOST_FINER + 1 if finer else MOST_DISSENT + 1):
        ahead = range(against + 1, cap - against)
        # The fewest votes that stop where two answers share all paths.
        lead = next((votes for votes in ahead if before[votes + against, votes, against]), cap)
        told = (v1 >= lead) & (v1 + against <= n)
        if told.any() and before[:, :, against][told].all():
            untold[:, :, against][told] = False
            places.append(f"{lead}-{against}")
    if not before.any():
        return f"Always draw {cap} answers, then take the most frequent one."
    if not places:
        return f"Stop at a lead that depends on how many answers are left; never draw more than {cap}."
    scattered = " If answers scatter or are missing, or after many answers, other leads can be enough."
    later = scattered if finer and untold.any() else ""
    *others, last = places
    any_of = f"{', '.join(others)} or {last}" if others else last
    return f"Stop once an answer leads {any_of}; never draw more than {cap}.{later}"


def sentences(decision: Decision, *, verbose: bool = False) -> list[str]:
    """Return the decision, what it changes, the rule, and how sure that is, a line each.

    With ``verbose`` the rule has its finer boundaries, and the change of accuracy a second interval: that of
    one run with other paths.
    """
    told = summary(decision)
    if decision.verdict is not None and decision.policy != decision.reference:
        rule = in_words(decision.policy, finer=verbose)
        # The spec is what sample, replay and serve take as it is.
        told += [f"Rule: {lower_first(rule)}" if rule else "Rule:", f"  {decision.policy}"]
    told += _certainty(decision)
    if decision.time is not None:
        told.append(f"{decision.time}.")
    if verbose and decision.run_change is not None:
        told.append(f"One run with other paths may show {_with_interval(decision.run_change)}.")
    return told


def summary(decision: Decision) -> list[str]:
    """Return what to draw instead of today, and what that changes, one or two sentences a line."""
    return [first_sentence(decision), *_changes(decision)]


def first_sentence(decision: Decision) -> str:
    """Return the sentence that says what to draw instead of today, and what that saves."""
    if decision.verdict is None:
        return f"No decision: {decision.because}."
    if PolicySpec.parse(decision.reference).name == "retry":
        return _retries(decision)
    today = reference_words(decision.reference)
    if decision.policy == decision.reference and decision.change.dollars_apart is not None:
        more = 1000 * abs(decision.change.dollars_apart.value)
        return (
            f"Keep drawing {today}, all in one request. Separate requests cost ${more:.3g} more per 1,000 "
            "questions."
        )
    if keeps_today(decision):
        return f"Keep drawing {today}."
    paths = None if decision.expected_paths is None else decision.expected_paths.value
    flight = in_flight_of(parse_policy(decision.policy))
    saved = cost_in_words(decision)
    if decision.policy == "fixed:1":
        what = f"Ask once instead of drawing {today}"
    elif flight is not None:
        today = _paths_today(decision, paths)
        most = "" if str(flight.cap) in (today, str(flight.width)) else f", at most {flight.cap},"
        what = f"Run {flight.width} at a time{most} instead of {today}, and stop early"
        return f"{what}{saved and f': {saved}'}."
    elif paths is None:
        what = f"Stop early instead of always drawing {today}"
    else:
        what = f"Stop early: {answers_in_words(paths)} on average instead of {_paths_today(decision, paths)}"
        return f"{what}{saved and f', {saved}'}."
    return f"{what}{saved and f': {saved}'}."


def _retries(decision: Decision) -> str:
    """Return the sentence that says how many tries to allow instead of today's."""
    most, today = parse_policy(decision.policy).cap, parse_policy(decision.reference).cap
    made = (
        "" if decision.expected_paths is None else f": {decision.expected_paths.value:.1f} tries on average"
    )
    if most == today == 1:
        return "Keep asking once."
    if most == today:
        return f"Keep trying up to {most} times until the checker passes an answer{made}."
    what = "Ask once" if most == 1 else f"Try up to {most} times until the checker passes an answer"
    saved = relative(decision, "paths")
    fewer = "" if saved is None else f", {change_in_words(saved, 'tries')}"
    return f"{what}, instead of {reference_words(decision.reference)}{made}{fewer}."


def keeps_today(decision: Decision) -> bool:
    """Return whether the rule is today's, or saves nothing of cost and time that one could see."""
    if decision.policy == decision.reference:
        return True
    change = decision.change
    costs = [relative(decision, name) for name in ("paths", "tokens")]
    times = [None if part is None else part.value - 1 for part in (change.p50_ratio, change.p95_ratio)]
    return costs != [None, None] and not any(round(100 * part) for part in (*costs, *times) if part)


def change_in_words(share: float, what: str) -> str:
    """Return a relative change of something counted in words, such as "26% fewer tokens"."""
    if not round(100 * share):
        return f"as many {what}"
    return f"{abs(share):.0%} {'more' if share > 0 else 'fewer'} {what}"


def cost_in_words(decision: Decision) -> str:
    """Return the change of tokens in words, else that of paths; "" where neither is known."""
    for name, what in (("tokens", "tokens"), ("paths", "answers")):
        if (share := relative(decision, name)) is not None:
            return change_in_words(share, what)
    return ""


def time_in_words(ratio: float) -> str:
    """Return a time as part of today's in words, such as "20% less time"."""
    change = round(100 * (ratio - 1))
    if not change:
        return "as long as today"
    if ratio >= 2:
        return f"{ratio:.1f} times as long".replace(".0 ", " ")
    return f"{abs(change)}% longer" if change > 0 else f"{-change}% less time"


def _paths_today(decision: Decision, paths: float | None) -> str:
    """Return today's number of paths, and its rule where that stops early."""
    spec, change = decision.reference, decision.change.paths
    if PolicySpec.parse(spec).name == "fixed":
        return str(parse_policy(spec).cap)
    return spec if change is None or paths is None else f"{paths - change.value:.1f} by {spec}"


def answers_in_words(paths: float) -> str:
    """Return a mean number of answers with its unit."""
    return "1 answer" if paths == 1 else f"{paths:.1f} answers"


def plural(number: int, what: str) -> str:
    """Return a number with its noun."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def reference_words(spec: str) -> str:
    """Return today's policy in plain words."""
    name, most = PolicySpec.parse(spec).name, parse_policy(spec).cap
    if name == "retry":
        return "1 try" if most == 1 else f"{most} tries"
    return plural(most, "answer") if name == "fixed" else f"by the rule {spec}"


def relative(decision: Decision, name: str) -> float | None:
    """Return the change of ``paths`` or ``tokens`` relative to today's; None where unknown."""
    difference = getattr(decision.change, name)
    total = decision.expected_paths if name == "paths" else decision.expected_tokens
    if difference is None or total is None or not total.value - difference.value > 0:
        return None
    return difference.value / (total.value - difference.value)


def _changes(decision: Decision) -> Iterator[str]:
    """Yield what the decision changes: accuracy, time and dollars, and what waiting longer would save."""
    change = decision.change
    if decision.verdict is None or decision.policy == decision.reference:
        return
    if not keeps_today(decision):
        if change.points is not None:
            yield f"{accuracy_in_words(change.points)}."
        elif decision.agreement is not None:
            yield f"{_same_answer(decision.agreement)}."
        if change.p50_ratio is not None and change.p95_ratio is not None:
            median, slowest = (time_in_words(part.value) for part in (change.p50_ratio, change.p95_ratio))
            yield f"Answers take {median} (median); the slowest 5% take {slowest}."
        if change.dollars is not None:
            yield f"{_dollars_in_words(change)}."
    if (rule := decision.cheapest) is not None:
        unit = (
            "dollars" if change.dollars is not None else "tokens" if change.tokens is not None else "answers"
        )
        saved = change_in_words(rule.cost - 1, unit)
        yield (
            f"If you can wait longer: {saved}, and the slowest 5% take {time_in_words(rule.p95)} "
            "(--slower any)."
        )


def accuracy_in_words(change: Interval) -> str:
    """Return the sentence on a change of accuracy."""
    if not round(1000 * change.value):
        lo, hi = map(_signed_points, change.limits or (change.value, change.value))
        return f"Accuracy stays about the same (95% interval {lo} to {hi} points)"
    return f"Accuracy changes by about {_with_interval(change)}"


def _with_interval(change: Interval) -> str:
    """Return a difference of shares in points, with its interval in words."""
    if change.limits is None:
        return f"{_signed_points(change.value)} points"
    lo, hi = map(_signed_points, change.limits)
    return f"{_signed_points(change.value)} points (95% interval {lo} to {hi})"


def _same_answer(agreement: Interval) -> str:
    """Return the sentence on how often the answer is the same as today's."""
    between = ""
    if agreement.limits is not None:
        lo, hi = agreement.limits
        between = f" (95% interval {100 * lo:.1f} to {100 * hi:.1f})"
    return f"The answer is the same as today's on {agreement.value:.1%} of questions{between}"


def _dollars_in_words(change: Differences) -> str:
    """Return the sentence on dollars, also against paths that are separate requests."""
    assert change.dollars is not None
    if change.dollars_apart is None:
        return f"This {_saves(change.dollars)} per 1,000 questions"
    return (
        f"This {_saves(change.dollars)} per 1,000 questions; it {_saves(change.dollars_apart)} if today's "
        "answers are separate requests"
    )


def _saves(dollars: Interval) -> str:
    more = "costs" if dollars.value > 0 else "saves"
    return f"{more} ${1000 * abs(dollars.value):.3g}{' more' if dollars.value > 0 else ''}"


def points(change: Interval | None) -> str:
    """Format a difference of shares in percentage points, with signs."""
    if change is None or change.value != change.value:
        return "–"
    if change.limits is None:
        return _signed_points(change.value)
    lo, hi = change.limits
    return f"{_signed_points(change.value)} [{_signed_points(lo)}, {_signed_points(hi)}]"


def _signed_points(share: float) -> str:
    """Return a difference of shares in points; a loss that rounds to nothing has no minus."""
    return f"{100 * share:+z.1f}"


def _certainty(decision: Decision) -> Iterator[str]:
    if decision.kept is not None:
        yield kept_in_words(decision)
    if decision.unmet is not None:
        yield f"{decision.unmet}."
    if decision.verdict is not None:
        first, *others = why(decision)
        yield f"{decision.verdict[0].upper()}{decision.verdict[1:]}: {lower_first(first)}"
        yield from others


def kept_in_words(decision: Decision) -> str:
    """Return the sentences on the share of accuracy that is kept, and how sure that is."""
    kept = decision.kept
    assert kept is not None
    of = "today's accuracy"
    if kept.of and kept.of != decision.reference:
        of = f"the accuracy of {reference_words(kept.of)}"
    between = ""
    if kept.limits is not None:
        lo, hi = kept.limits
        between = f" (95% interval {100 * lo:.1f} to {100 * hi:.1f})"
    sure = ""
    if kept.confidence is not None:
        asked = "what you asked for" if kept.asked is None else f"at least {100 * kept.asked:g}%"
        sure = f" There is a {kept.confidence:.0%} chance that it keeps {asked}."
    how = "" if decision.measured else " This is predicted, since the rule draws more than you recorded."
    return f"This keeps {kept.value:.1%} of {of}{between}.{sure}{how}"


def why(decision: Decision) -> list[str]:
    """Return the reason for the verdict; where undecided, also what is settled and what is not."""
    if decision.verdict is None:
        return []
    told = decision.because
    if decision.verdict == "undecided" and decision.open:
        told = decision.open
    # Without gold answers the first lines have said what is settled.
    known = decision.change.points is not None or decision.agreement is None
    lines = [told, *([decision.settled] if decision.settled and known else [])]
    return [f"{line[0].upper()}{line[1:]}".rstrip(".") + "." for line in lines]
