"""Sentences of the decision: what a rule does, what it replaces, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from keff import plugins
from keff.analysis.results.decision import Decision, Differences, Kept
from keff.errors import KeffError
from keff.policies import TablePolicy
from keff.policies._table import legal
from keff.policy import InFlight, InWaves, LogOddsVote, Policy, in_flight_of, parse_policy
from keff.policy.drawing import LEAST_VOTES, GivesUp
from keff.policy.spec import PolicySpec
from keff.records import Interval

# Votes are told against at most so many for the next answer: more would not be read.
MOST_DISSENT, MOST_FINER = 2, 5


def in_words(spec: str, *, finer: bool = False) -> str:
    """Return what a policy does, in plain words that end with its cap.

    A rule that sees only votes is told by the lead at which it stops, where that says it all, else by the
    votes at which it stops (``finer``: by more of them). Others are told by the first line of their
    documentation.
    """
    if spec == "fixed:1":
        return "One path, no vote."
    try:
        name = PolicySpec.parse(spec).name
        policy = parse_policy(spec)
    except KeffError:
        return ""
    if around := _drawing_in_words(policy, finer=finer):
        return around
    if name == "fixed":
        return f"Always {policy.cap} paths, then the most frequent answer."
    if name == "curtailed":
        return f"Stop when no other answer can catch up; at most {policy.cap} paths."
    if isinstance(policy, TablePolicy):
        return _by_lead(policy) or _by_votes(policy, finer=finer)
    return plugins.summaries("policy").get(name, "")


def _drawing_in_words(policy: Policy, *, finer: bool) -> str:
    """Return the sentence for a rule that draws in waves, in flight, or by confidence; "" for others."""
    if isinstance(policy, InWaves):
        rule = in_words(policy.rule.spec, finer=finer)
        sizes = ", then ".join(map(str, policy.sizes))
        return f"At least {sizes} paths at a time, and after each wave: {rule}"
    if isinstance(policy, GivesUp):
        rule = in_words(policy.rule.spec, finer=finer)
        return f"Give up where the first {policy.paths} paths all differ. {rule}"
    if (flight := in_flight_of(policy)) is not None:
        rule = in_words(flight.rule.spec, finer=finer).rstrip(".")
        return f"{rule}, {flight.width} at once; votes count {_counting_in_words(flight)}."
    if policy.needs & {"calibration"}:
        return _by_confidence(policy, finer=finer)
    return ""


def _counting_in_words(flight: InFlight) -> str:
    """Return in words when votes in flight count: in launch order, or as they arrive."""
    if flight.order == "launch":
        return "in launch order"
    free = flight.alone or flight.rule.spec.startswith("curtailed")
    least = "" if free else f", once {LEAST_VOTES} are in"
    return f"as they arrive{least}"


def _by_confidence(policy: Policy, *, finer: bool) -> str:
    if isinstance(policy, LogOddsVote):
        weigh = "Votes weigh by how likely their confidence says they are right"
        if policy.give_up:
            weigh += f"; give up once two or more have a mean chance below {policy.give_up:g}"
        return f"{weigh}. {in_words(policy.rule.spec, finer=finer)}"
    bar = PolicySpec.parse(policy.spec).value
    return f"Take the first path that is right with chance {bar}; at most {policy.cap} paths."


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
        f"by {lead}" + (f" from path {n} on" if n > lead or place else "")
        for place, (n, lead) in enumerate(leads.items())
    ]
    return f"Stop when one answer leads {', or '.join(parts)}; at most {policy.cap} paths."


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
            places.append(f"{lead} to {against}")
    if not before.any():
        return f"Draw {cap} paths, then take the most frequent answer."
    if not places:
        return f"Stop at a lead that depends on the paths that are left; at most {cap} paths."
    later = "; other votes may be enough later on" if finer and untold.any() else ""
    *others, last = places
    any_of = f"{', '.join(others)} or {last}" if others else last
    return f"Stop when the vote stands at {any_of}{later}; at most {cap} paths."


def sentences(decision: Decision, *, verbose: bool = False) -> list[str]:
    """Return the decision, the rule and its certainty, one or two sentences each.

    With ``verbose`` the rule has its finer boundaries, and the change of accuracy a second interval: that of
    one run with other paths.
    """
    rule = in_words(decision.policy, finer=verbose)
    # The spec is what sample, replay and serve take as it is.
    spec = f"{rule.rstrip('.') or 'By the rule'} ({decision.policy})."
    told = [first_sentence(decision), spec, *_certainty(decision)]
    if decision.time is not None:
        told.append(f"{decision.time}.")
    if verbose and decision.run_change is not None:
        told.append(f"One run with other paths would show {points(decision.run_change)} points.")
    return [line for line in told if line]


def first_sentence(decision: Decision) -> str:
    """Return the sentence that says what to draw instead of today, and what that changes."""
    if decision.verdict is None:
        return f"No decision: {decision.because}."
    paths = None if decision.expected_paths is None else decision.expected_paths.value
    today = reference_words(decision.reference)
    if decision.policy == decision.reference and decision.change.dollars_apart is not None:
        more = signed_dollars(-1000 * decision.change.dollars_apart.value)
        return f"Keep drawing {today} by one request: separate requests cost {more} per 1,000 questions."
    if decision.policy == decision.reference or _nothing_changes(decision):
        return f"Keep drawing {today}{_cheapest(decision)}."
    flight = in_flight_of(parse_policy(decision.policy))
    if decision.policy == "fixed:1":
        what = f"Ask once instead of drawing {today}"
    elif flight is not None:
        ahead = f"Start {flight.cap} paths at once"
        if flight.width < flight.cap:
            ahead = f"Keep {flight.width} paths running, {flight.cap} at most,"
        what = f"{ahead} instead of {_paths_today(decision, paths or float(flight.cap))}"
    elif paths is None:
        what = f"Stop early instead of always drawing {today}"
    else:
        # Of two numbers of paths the second needs no unit.
        what = f"Draw {count(paths)} instead of {_paths_today(decision, paths)}"
    changes = f": {', '.join(told)}" if (told := list(_changes(decision))) else ""
    return f"{what}{changes}{_cheapest(decision)}."


def _nothing_changes(decision: Decision) -> bool:
    """Return whether the savings in cost and time round to nothing."""
    change = decision.change
    costs = [relative(decision, name) for name in ("paths", "tokens")]
    times = [None if part is None else part.value - 1 for part in (change.p50_ratio, change.p95_ratio)]
    return costs != [None, None] and not any(round(100 * part) for part in (*costs, *times) if part)


def _cheapest(decision: Decision) -> str:
    """Return in brackets what the cheapest rule would change if time were not bounded."""
    rule = decision.cheapest
    if rule is None:
        return ""
    change = decision.change
    unit = "dollars" if change.dollars is not None else "tokens" if change.tokens is not None else "paths"
    times = f"p50 time {_relative(rule.p50)}, p95 {_relative(rule.p95)}"
    return f" (cheapest if time did not count: {_relative(rule.cost)} {unit}, {times})"


def _relative(part: float) -> str:
    """Return a ratio to today's value as a change in percent."""
    return f"{round(100 * (part - 1)):+d}%"


def _paths_today(decision: Decision, paths: float) -> str:
    """Return today's number of paths, and its rule where that stops early."""
    spec, change = decision.reference, decision.change.paths
    if PolicySpec.parse(spec).name == "fixed":
        return str(parse_policy(spec).cap)
    return spec if change is None else f"{paths - change.value:.1f} by {spec}"


def count(paths: float) -> str:
    """Return a mean number of paths with its unit."""
    return "1 path" if paths == 1 else f"{paths:.1f} paths"


def counted(number: int, what: str) -> str:
    """Return a number with its noun."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def reference_words(spec: str) -> str:
    """Return today's policy in plain words."""
    if PolicySpec.parse(spec).name != "fixed":
        return spec
    k = parse_policy(spec).cap
    return counted(k, "path")


def relative(decision: Decision, name: str) -> float | None:
    """Return the change of ``paths`` or ``tokens`` relative to today's; None where unknown."""
    difference = getattr(decision.change, name)
    total = decision.expected_paths if name == "paths" else decision.expected_tokens
    if difference is None or total is None or not total.value - difference.value > 0:
        return None
    return difference.value / (total.value - difference.value)


def _changes(decision: Decision) -> Iterator[str]:
    change = decision.change
    tokens, paths = relative(decision, "tokens"), relative(decision, "paths")
    if tokens is not None or paths is not None:
        yield f"{tokens:+.0%} tokens" if tokens is not None else f"{paths:+.0%} paths"
    if change.dollars is not None:
        yield f"{signed_dollars(1000 * change.dollars.value)} per 1,000 questions{_if_separate(change)}"
    if change.p50_ratio is not None and change.p95_ratio is not None:
        yield f"p50 time {_relative(change.p50_ratio.value)}"
        yield f"p95 {_relative(change.p95_ratio.value)}"
    if change.points is not None:
        yield f"accuracy {points(change.points)} points"
    elif decision.agreement is not None:
        yield f"the same answer on {decision.agreement.percent()} of questions"


def _if_separate(change: Differences) -> str:
    """Return in brackets the change in dollars against paths that are separate requests."""
    if change.dollars_apart is None:
        return ""
    return f" ({signed_dollars(1000 * change.dollars_apart.value)} if today's paths are separate requests)"


def signed_dollars(value: float) -> str:
    """Return dollars with their sign before the currency."""
    return f"{'-' if value < 0 else '+'}${abs(value):.3g}"


def points(change: Interval | None) -> str:
    """Format a difference of shares in percentage points, with signs."""
    if change is None or change.value != change.value:
        return "–"
    if change.limits is None:
        return _signed(change.value)
    lo, hi = change.limits
    return f"{_signed(change.value)} [{_signed(lo)}, {_signed(hi)}]"


def _signed(share: float) -> str:
    """Return a difference of shares in points; a loss that rounds to nothing has no minus."""
    return f"{round(100 * share, 1) + 0.0:+.1f}"


def _certainty(decision: Decision) -> Iterator[str]:
    kept = decision.kept
    if kept is not None:
        predicted = "" if decision.measured else ", predicted beyond the paths recorded"
        of = reference_words(kept.of or decision.reference)
        yield f"Keeps {kept.percent()} of the accuracy of {of}{predicted}{surely(kept)}."
    if decision.unmet is not None:
        yield f"{decision.unmet}."
    yield from (f"{line}." for line in why(decision))


def surely(kept: Kept) -> str:
    """Return how sure it is that this workload keeps the share; empty where none was asked."""
    if kept.confidence is None:
        return ""
    asked = "what you asked" if kept.asked is None else f"{100 * kept.asked:g}%"
    return f"; there is a {kept.confidence:.0%} chance that this workload keeps at least {asked}"


def why(decision: Decision) -> list[str]:
    """Return the verdict with its reason; where undecided, also what is settled and what is not."""
    if decision.verdict is None:
        return []
    told = decision.because
    if decision.verdict == "undecided" and decision.open:
        told = decision.open[0].lower() + decision.open[1:]
    line = f"{decision.verdict[0].upper()}{decision.verdict[1:]}: {told}".rstrip(".")
    return [line, *([decision.settled.rstrip(".")] if decision.settled else [])]
