"""Decision on answers that a checker passes or fails: how many tries to allow."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from keff.analysis.decision.aim import Aim
from keff.analysis.results.decision import Decision, Differences, Kept
from keff.analysis.results.tries import Tries, TryLine
from keff.analysis.walks import reference_of
from keff.errors import UsageError
from keff.records import Interval, frozen
from keff.stats.intervals import interval_mean, mean_share, paired_difference
from keff.stats.models.tries import TryLaw, fail_and_solve_chances, tries_made, until_passed
from keff.stats.repeats import Repeats
from keff.stats.scores import any_right
from keff.stats.votes import BoolArray, FloatArray, IntArray, Votes

# Fewer independent questions decide nothing.
LEAST_QUESTIONS = 10

# What is said of tries beyond the record, and of those that are still to come.
LAW = "posterior of the law of tries"

# A further try that is right so seldom is never worth its cost.
HOPELESS = 1e-6


@frozen
class Verdicts:
    """Which paths a checker passed [n, K], and which are right by gold answers (None: not known).

    ``ended``: tries ended at the first that passed, so those after it are not known.
    """

    passed: BoolArray
    right: BoolArray | None
    clusters: IntArray
    ended: bool = False

    @classmethod
    def of(cls, votes: Votes) -> Verdicts | None:
        """Return the verdicts of votes; None where no checker judged them.

        Correctness without answers is a verdict, and so is a confidence that is 0 or 1 on every path. A path
        that the checker failed to judge has not passed.
        """
        if votes.tries is not None:
            most = np.arange(1, int(np.abs(votes.tries).max()) + 1)
            return cls(votes.tries[:, None] == most, None, votes.cluster_ids, ended=True)
        if votes.answers is None:
            return cls(votes.scored() == 1, None, votes.cluster_ids)
        for given in votes.rated.values():
            known = given[np.isfinite(given)]
            if known.size and bool(np.all((known == 0) | (known == 1))):
                right = None if votes.correct is None else votes.correct == 1
                return cls(given == 1, right, votes.cluster_ids)
        return None

    @property
    def made(self) -> IntArray:
        """How many tries were made of each question [n]."""
        n, k = self.passed.shape
        ends = self.passed.any(axis=1) & self.ended
        return np.where(ends, self.passed.argmax(axis=1) + 1, np.full(n, k))

    def until_passed(self, values: FloatArray) -> FloatArray:
        """Return the mean sum of ``values`` [n, K] over the tries made, of at most 0..K allowed [n, K + 1].

        Of tries that ended, in the order in which they were made.
        """
        if not self.ended:
            return until_passed(values, self.passed)
        still = np.cumsum(self.passed, axis=1) - self.passed == 0
        return np.pad(np.cumsum(values * still, axis=1), ((0, 0), (1, 0)))

    @property
    def units(self) -> int:
        """The number of independent questions (clusters)."""
        return int(self.clusters.max()) + 1

    @property
    def solved(self) -> BoolArray:
        """The tries that pass and are right as far as is known: all that pass, without gold answers."""
        return self.passed if self.right is None else self.passed & self.right

    def hidden_error_share(self, false_accept: float) -> float:
        """Return the share of wrong answers that pass unseen: gold answers show which of them are wrong."""
        return false_accept if self.right is None else 0.0

    @property
    def checker_errors(self) -> Errors | None:
        """The share of wrong answers that pass and of right ones that fail; None without both kinds."""
        if self.right is None or self.right.all() or not self.right.any():
            return None
        found: list[Interval] = []
        for kind, wrong in ((~self.right, self.passed), (self.right, ~self.passed)):
            times = kind.sum(axis=1)
            some = times > 0
            share = (wrong & kind).sum(axis=1)[some] / times[some]
            # Each question counts by its answers of this kind.
            mean = float((wrong & kind).sum() / times.sum())
            spread = mean_share(share, self.clusters[some])
            lo, hi = spread.limits or (mean, mean)
            found.append(Interval(mean, min(lo, mean), max(hi, mean), spread.method))
        return Errors(*found)


class Errors(NamedTuple):
    """The mistakes of a checker: the share of wrong answers that pass, and of right ones that fail."""

    accepts: Interval
    rejects: Interval


def why_undecidable(verdicts: Verdicts) -> str | None:
    """Return why verdicts decide nothing, with a remedy; None where they do."""
    passed, errors = verdicts.passed, verdicts.checker_errors
    if (units := verdicts.units) < LEAST_QUESTIONS:
        return f"{units} independent questions cannot decide: record at least {LEAST_QUESTIONS}"
    if passed.shape[1] < 2:
        return "one try per question shows nothing about further tries: record two or more"
    if not passed.any():
        return "no try passed: check what the checker was given, or ask another model (keff mix)"
    if errors is not None and errors.accepts.value >= 1 - errors.rejects.value:
        accepts, right = errors.accepts.value, 1 - errors.rejects.value
        told = f"the checker passes {accepts:.0%} of wrong answers and {right:.0%} of right ones"
        return f"verdicts contradict the gold answers: {told}. Check whether one of them is inverted"
    return None


class TryCurves(NamedTuple):
    """What at most 0, 1, ... M tries do on each question, each [n, M + 1].

    ``solved`` is the chance that a right answer passes, ``failing`` that all fail, ``spent`` the mean cost.
    """

    solved: FloatArray
    failing: FloatArray
    spent: FloatArray


class Beyond(NamedTuple):
    """What tries beyond the recorded ones do where all of those failed, at each point of a law [G, M + 1].

    ``solved`` and ``made`` are 0 and ``failing`` is 1 up to the recorded tries.
    """

    solved: FloatArray
    failing: FloatArray
    made: FloatArray

    @classmethod
    def of(cls, law: TryLaw, recorded: int, most: int, false_accept: float) -> Beyond:
        """Return it for up to ``most`` tries, by a checker that passes some wrong answers."""
        unsolved = law.unsolved_shares(max(most, recorded))[:, recorded:]
        failing, solved = fail_and_solve_chances(unsolved / unsolved[:, :1], false_accept)
        made, before = tries_made(failing), ((0, 0), (recorded, 0))
        return cls(np.pad(solved, before), np.pad(failing, before, constant_values=1), np.pad(made, before))


@frozen
class TryFigures:
    """What at most 0, 1, ... M tries do: expected at each point of the law [G, M + 1], and ``here``.

    ``solved`` are the questions on which a right answer passes, ``made`` the tries, ``passes`` the questions
    on which any answer passes. ``here`` is measured up to the recorded tries; where all of these failed,
    further ones go on as the law says (``beyond``).
    """

    law: TryLaw
    verdicts: Verdicts
    solved: FloatArray
    made: FloatArray
    passes: FloatArray
    false_accept: float
    beyond: Beyond
    here: TryCurves
    repeats: Repeats

    @classmethod
    def of(
        cls, verdicts: Verdicts, most: int, false_accept: float, cost: FloatArray | None = None
    ) -> TryFigures:
        """Return the figures of up to ``most`` tries with a checker that passes some wrong answers.

        ``cost`` [n, K] is that of each try, by default one.
        """
        passed, tried, right = verdicts.passed, verdicts.made, verdicts.solved
        n, k = passed.shape
        cost = np.ones((n, k)) if cost is None else cost
        law = TryLaw.of(right.sum(axis=1), tried, verdicts.units, verdicts.hidden_error_share(false_accept))
        failing, solved = fail_and_solve_chances(law.unsolved_shares(most), false_accept)
        ids = verdicts.clusters if verdicts.units < n else None
        beyond = Beyond.of(law, k, most, false_accept)
        more_solved, still, more_made = (law.weight @ values for values in beyond)
        recorded = np.minimum(np.arange(len(still)), k)
        seen, passes, spent = (
            verdicts.until_passed(values.astype(np.float64))[:, recorded] for values in (right, passed, cost)
        )
        left = 1 - passes[:, -1:]
        here = TryCurves(
            seen + left * more_solved,
            (1 - passes) * still,
            spent + left * cost.mean(axis=1, keepdims=True) * more_made,
        )
        repeats = Repeats.of_counts(right.sum(axis=1), tried, ids)
        made = tries_made(failing)
        return cls(law, verdicts, solved, made, 1 - failing, false_accept, beyond, here, repeats)

    @property
    def known(self) -> bool:
        """Whether the record shows which passing answers are right: not where false accepts are stated."""
        return self.verdicts.right is not None or self.false_accept == 0

    def expected(self, values: FloatArray) -> Interval:
        """Return a posterior mean with its interval."""
        return Interval(*self.law.interval(values), LAW)

    def right(self, tries: int) -> Interval:
        """Return the share of questions on which a right answer passes within so many tries."""
        if not self.known:
            return self.expected(self.solved[:, tries])
        if self.verdicts.right is None and not self.verdicts.ended:
            return any_right(self.repeats, tries)
        noise = self._unsure(self.beyond.solved[:, tries])
        return mean_share(self.here.solved[:, tries], self.verdicts.clusters, noise=noise)

    def spent(self, tries: int, today: int = 0) -> Interval:
        """Return what at most so many tries cost on average, less what at most ``today``'s do."""
        spent = self.here.spent[:, tries] - self.here.spent[:, today]
        found = interval_mean(spent, self.verdicts.clusters).interval
        more = self.beyond.made[:, tries] - self.beyond.made[:, today]
        if found.limits is None or not more.any():
            return found
        value, *ends = self.law.interval(more)
        scale = self.left * float(self.here.spent[:, 1].mean())
        lo, hi = (
            math.hypot(at - found.value, scale * (end - value))
            for at, end in zip(found.limits, ends, strict=True)
        )
        return Interval(found.value, found.value - lo, found.value + hi, f"{found.method}; {LAW}")

    @property
    def left(self) -> float:
        """The share of questions on which all recorded tries fail."""
        return float(self.here.failing[:, self.verdicts.passed.shape[1]].mean())

    def _unsure(self, more: FloatArray) -> float:
        """Return the variance, by the law, of the share solved by ``more`` [G] of the questions ``left``."""
        return self.left**2 * float(self.law.weight @ (more - self.law.weight @ more) ** 2)

    def line(self, tries: int) -> TryLine:
        """Return what at most so many tries reach."""
        left = self.law.unsolved_shares(tries + 1)
        chance = self.expected(1 - left[:, tries + 1] / left[:, tries])
        # Of a question on which all failed, whichever law holds: a ratio of means.
        failed, still = (float(self.law.weight @ left[:, made]) for made in (tries, tries + 1))
        chance = replace(chance, value=1 - still / failed)
        wrong = None
        if self.false_accept > 0:
            passes = float(self.law.weight @ self.passes[:, tries])
            wrong = max(1 - float(self.law.weight @ self.solved[:, tries]) / max(passes, 1e-12), 0.0)
        pays = None if chance.value < HOPELESS else 1 / chance.value
        return TryLine(tries, self.right(tries), self.spent(tries), chance, pays, wrong)

    def change(self, tries: int, today: int) -> Differences:
        """Return the changes of at most ``tries`` tries against ``today``'s."""
        if tries == today:
            points = Interval(0.0, 0.0, 0.0, "today's tries")
        elif self.known:
            more = self.beyond.solved[:, tries] - self.beyond.solved[:, today]
            solved = self.here.solved[:, tries] - self.here.solved[:, today]
            points = paired_difference(solved, self.verdicts.clusters, noise=self._unsure(more))
        else:
            points = self.expected(self.solved[:, tries] - self.solved[:, today])
        return Differences(paths=self.spent(tries, today), points=points)

    def kept(self, tries: int, today: int, aim: Aim) -> Kept:
        """Return the share of the questions that today's tries solve, and that these do."""
        share = self.solved[:, tries] / np.maximum(self.solved[:, today], 1e-12)
        value, lo, hi = self.law.interval(np.minimum(share, 1.0))
        asked = aim.share if aim.asks_share else None
        sure = None if asked is None else float(self.law.weight @ (share >= asked - 1e-12))
        return Kept(value, lo, hi, LAW, sure, aim.confidence, f"retry:{today}", asked)


def choose_tries(figures: TryFigures, aim: Aim, today: int) -> tuple[int, bool]:
    """Return how many tries to allow, and whether they meet the aim.

    By the expected share solved: the fewest that keep the share asked of today's, the most within a budget
    with 90% probability, or those of most worth.
    """
    weight = figures.law.weight
    solved, made = weight @ figures.solved, weight @ figures.made
    if aim.value_per_correct is not None and aim.cost_per_path is not None:
        net = aim.value_per_correct * solved - aim.cost_per_path * made
        return int(np.argmax(net[1:])) + 1, True
    if aim.budget is not None:
        within = [tries for tries in range(1, len(made)) if _upper(figures, tries) <= aim.budget]
        return max(within, default=1), bool(within)
    keeps = solved >= aim.share * solved[today] - 1e-12
    if aim.confidence is not None:
        sure = weight @ (figures.solved >= aim.share * figures.solved[:, [today]] - 1e-12)
        keeps &= sure >= aim.confidence
    keeps[0] = False
    return (int(np.argmax(keeps)), True) if keeps.any() else (len(solved) - 1, False)


def _upper(figures: TryFigures, tries: int) -> float:
    """Return the tries made on average that are exceeded with a probability of 10%."""
    return figures.law.interval(figures.made[:, tries], 0.8)[2]


def decide_tries(
    verdicts: Verdicts, aim: Aim, *, now: str | None, cap: int | None, false_accept: float | None
) -> tuple[Decision, Tries | None]:
    """Decide how many tries to allow, from the verdicts of a checker on recorded tries.

    ``now`` are today's tries (a number, or a policy with a cap; default the recorded ones), ``cap`` the most
    that may be allowed (default today's). ``false_accept`` is the share of wrong answers that pass, where no
    gold answers show it. Raises UsageError for a share that the record contradicts.
    """
    k = verdicts.passed.shape[1]
    today = reference_of(now, k).cap
    if why := why_undecidable(verdicts):
        return Decision(None, f"retry:{today}", why, f"retry:{today}"), None
    accepts, rejects = errors_of(verdicts, false_accept)
    most = max(cap or today, k, today)
    figures = TryFigures.of(verdicts, most, 0.0 if accepts is None else accepts.value)
    lines = tuple(figures.line(tries) for tries in range(1, most + 1))
    never = Interval(*figures.law.share_never, LAW)
    found = Tries(len(verdicts.passed), k, lines, never, accepts, rejects)
    tries, met = choose_tries(figures, aim, today)
    if cap is not None and tries > cap:
        tries, met = cap, not aim.asks_share
    row = lines[tries - 1]
    decision = Decision(
        verdict="retry" if tries > 1 else "ask once",
        policy=f"retry:{tries}" if tries > 1 else "fixed:1",
        because=_because(verdicts, lines, tries),
        reference=f"retry:{today}",
        kept=None if tries == today else figures.kept(tries, today, aim),
        change=figures.change(tries, today),
        accuracy=row.right,
        expected_paths=row.paths,
        measured=max(tries, today) <= k,
        unmet=None if met else f"No number of tries within the cap keeps the {100 * aim.share:g}% asked for",
    )
    return decision, found


def errors_of(verdicts: Verdicts, stated: float | None) -> tuple[Interval | None, Interval | None]:
    """Return the share of wrong answers that pass, and that of right ones that fail, where known.

    ``stated`` is the former where no gold answers show it. Raises UsageError for one that the record
    contradicts.
    """
    errors = verdicts.checker_errors
    if errors is not None:
        if stated is not None:
            line = f"these gold answers show that {errors.accepts.value:.1%} of wrong answers pass"
            raise UsageError(f"false_accept is for records without gold answers: {line}")
        return errors
    if not stated:
        return None, None
    if not 0 < stated < 1:
        raise UsageError(
            f"false_accept is a share of the wrong answers, at least 0 and below 1: not {stated:g}"
        )
    share = float(verdicts.passed.sum() / verdicts.made.sum())
    if share < stated:
        line = f"only {share:.1%} of all tries passed, and wrong ones cannot pass more often than that"
        raise UsageError(f"false_accept {stated:g}: {line}")
    return Interval(stated, None, None, "stated"), None


def _because(verdicts: Verdicts, lines: tuple[TryLine, ...], tries: int) -> str:
    row = lines[tries - 1]
    if verdicts.passed.all():
        return (
            "every recorded try passed, so a retry never happens: check that the checker can fail an answer"
        )
    after = "one failed try" if tries == 1 else f"{tries} failed tries"
    return f"after {after} the next is right with a chance of {row.next_right.value:.0%}"
