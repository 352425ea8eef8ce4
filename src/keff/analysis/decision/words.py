"""Sentences of a decision: its reason, what is settled, and what is still open."""

from __future__ import annotations

import numpy as np

from keff.analysis.decision.aim import Aim
from keff.analysis.decision.chain import full_spec
from keff.analysis.decision.choose import NEGLIGIBLE, Choice, stated_gain
from keff.analysis.decision.posterior import JointPosterior
from keff.analysis.decision.timing import Timing
from keff.analysis.results.decision import Kept
from keff.analysis.results.words import plural
from keff.records import Interval
from keff.stats.votes import Votes

# Normal quantiles of a two-sided test at 5% and of a power of 80%.
TWO_SIDED, POWER = 1.96, 0.84

# The smallest difference that people act on; a smaller one needs questions by the ten thousand.
ONE_POINT = 0.01

# From this chance on it is said that voting lowers accuracy.
SURE_THAT_VOTING_HURTS = 0.9


def questions_needed(posterior: JointPosterior) -> int | None:
    """Return how many questions show a gain of one point with 80% power, to two digits.

    From the variance of the gain over questions, shrunk to the usual one; questions of one cluster count as
    they did in the pilot.
    """
    if posterior.gain_variance <= 0:
        return None
    needed = (TWO_SIDED + POWER) ** 2 * posterior.gain_variance / ONE_POINT**2
    needed *= posterior.questions / posterior.groups
    size = 10 ** max(len(str(int(needed))) - 2, 0)
    return max(int(np.ceil(needed / size)) * size, 1)


def _interval(gain: Interval) -> str:
    """Return a gain in points with its interval in words."""
    lo, hi = gain.limits or (gain.value, gain.value)
    return f"{100 * gain.value:+z.1f} points (95% interval {100 * lo:+z.1f} to {100 * hi:+z.1f})"


# Without abstentions the vote of two paths is right as often as one of them, whatever they are.
OF_TWO = "a vote of two answers is as good as one of them"


def _measured_points(posterior: JointPosterior, choice: Choice) -> float:
    """Return the points that voting changed on the questions at hand, 0 where they round to it."""
    points = 100 * float(posterior.measured[posterior.voting(choice.rule)])
    return points if abs(points) >= 0.05 else 0.0


def _measured_change(posterior: JointPosterior, choice: Choice, k: int) -> str:
    """Return what voting changed on the questions at hand, of ``k`` recorded paths."""
    measured = _measured_points(posterior, choice)
    if not measured:
        return OF_TWO if k == 2 else "voting changed nothing on these questions"
    verb = "helped" if measured > 0 else "hurt"
    return f"voting {verb} by {abs(measured):.1f} points on these questions"


def reason(posterior: JointPosterior, choice: Choice, aim: Aim, votes: Votes, kept: Kept | None) -> str:
    """Return the reason for the verdict; ``kept`` is the share of accuracy kept."""
    gain = stated_gain(posterior, choice)
    if choice.verdict == "ask once":
        return _why_once(posterior, choice, aim, gain, kept)
    changed = _measured_change(posterior, choice, votes.k)
    if choice.verdict == "vote":
        told = f"{changed}. On new ones we expect {_interval(gain)}"
        if float(posterior.gain_alone[0, posterior.voting(choice.rule)]) > 0:
            return told
        measured = float(posterior.measured[posterior.voting(choice.rule)])
        others = "gained more" if gain.value > measured else "gain too"
        return f"{told}, because similar workloads {others}. This pilot alone does not show it"
    if posterior.level is None:
        return "without gold answers keff cannot tell whether voting helps. The rule keeps today's answers"
    size = f"{plural(votes.n, 'question')} x {plural(votes.k, 'answer')}"
    if votes.k == 2 and not _measured_points(posterior, choice):
        size = f"{OF_TWO}, so this record"
    return f"{size} cannot tell whether voting helps. We expect {_interval(gain)} compared with asking once"


def _why_once(posterior: JointPosterior, choice: Choice, aim: Aim, gain: Interval, kept: Kept | None) -> str:
    if posterior.level is None:
        same = 1 - float(posterior.population.flips[:, posterior.single].mean())
        return f"one answer is the same as today's on {same:.1%} of questions"
    if choice.p_vote_worse >= SURE_THAT_VOTING_HURTS and choice.gain < -NEGLIGIBLE:
        return f"voting lowers accuracy. We expect {_interval(gain)} compared with asking once"
    if choice.regret_of_one_path <= NEGLIGIBLE:
        return f"voting adds nothing. We expect {_interval(gain)} compared with asking once"
    adds = f"voting would add {100 * choice.gain:.1f} points"
    if choice.gain < 0.0005:
        adds = "we do not expect voting to add anything"
    if not aim.asks_share:
        return f"more answers cost more than you say they are worth. {adds[0].upper()}{adds[1:]}"
    # Of a reference that is never right there is no share to keep.
    if kept is None:
        return adds
    enough = f"asking once keeps {kept.value:.1%} of today's accuracy, and you asked for {100 * aim.share:g}%"
    return f"{enough}. {adds[0].upper()}{adds[1:]}"


def early_stopping_sentence(posterior: JointPosterior, choice: Choice) -> str:
    """Return the sentence on stopping early, which may be settled while voting is open.

    It is said of the deployed rule; where that is one path, of the cheapest safe rule, which is not named.
    """
    rule, last = choice.rule, len(posterior.specs) - 1
    if rule == posterior.single:
        safe = posterior.loss <= NEGLIGIBLE
        safe[posterior.single] = False
        rule = int(np.argmin(np.where(safe, posterior.paths, np.inf)))
    saved = 1 - float(posterior.paths[rule] / posterior.paths[last])
    if saved <= 0:
        return "Stopping early saves nothing here"
    by = "" if choice.rule == posterior.single else f" with {full_spec(posterior.specs[rule])}"
    saves = f"saves {saved:.0%} of the answers{by}"
    if posterior.level is None:
        same = 1 - float(posterior.population.flips[:, rule].mean())
        return f"Stopping early {saves}. The answer is then the same as today's on {same:.1%} of questions"
    lost = float(posterior.loss[rule])
    told = "no accuracy" if lost < 0.0005 else f"{100 * lost:.1f} points on average"
    return f"Stopping early {'is safe: it ' if lost <= NEGLIGIBLE else ''}{saves} and loses {told}"


def open_question_sentence(posterior: JointPosterior, choice: Choice, needed: int | None, k: int) -> str:
    """Return the sentence on what is still open: whether voting beats one path, of ``k`` recorded ones."""
    if posterior.level is None:
        return "Without gold answers keff cannot tell whether voting helps"
    seen = _measured_change(posterior, choice, k)
    tell = "" if needed is None else f". About {needed:,} questions would show a gain of 1 point"
    if k == 2 and not _measured_points(posterior, choice):
        tell = ". Record three answers or more"
    expected = f"On new ones we expect {_interval(stated_gain(posterior, choice))}"
    return f"We cannot tell yet whether voting helps: {seen}. {expected}{tell}"


def time_sentence(choice: Choice, aim: Aim, timing: Timing | None, *, measured: bool, k: int) -> str | None:
    """Return the sentence on how far time is bounded; None where nothing need be said."""
    if choice.verdict == "ask once" and not (timing is not None and measured):
        return None  # nothing is faster than one path, and no record would change that
    if not measured:
        return "keff cannot bound the time to answer, since the rule draws more paths than you recorded"
    if timing is None:
        return (
            "keff cannot tell the time to answer. Record the seconds or tokens of every path (all_seconds, "
            "all_tokens), and it will look for rules that save time too"
        )
    if choice.cheapest is not None and not timing.recorded[choice.cheapest]:
        return (
            f"Rules that draw more than your {k} recorded paths were left out, because keff cannot tell how "
            "long they take. To include them: --slower any"
        )
    if aim.slower is None or choice.kept == "both":
        return None
    times = "today's time" if aim.slower == 1 else f"{aim.slower:g} times today's time"
    slow = "the slowest 5%" if choice.kept == "median" else "the median"
    within = "This one keeps the median within it" if choice.kept == "median" else "This one is the fastest"
    return f"No rule that keeps enough accuracy is sure to keep {slow} within {times}. {within}"
