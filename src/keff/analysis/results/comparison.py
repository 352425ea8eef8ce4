"""Result of ``keff compare``: two arms, or several scores, on the same questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from os.path import commonprefix
from pathlib import PurePath
from typing import Literal

from keff.analysis.results.combination import Slot, weighting
from keff.analysis.results.words import points
from keff.records import Finding, Interval, Note, Result, frozen, number, text_table
from keff.stats.branches.covariance import BlockCorrelation
from keff.stats.branches.slots import PhiAudit
from keff.stats.branches.weights import Pruning, WeightedVote

# Smaller p-values rest on the tail of an approximation and are not told apart.
SMALLEST_P = 1e-6


def p_text(value: float) -> str:
    """Return a p-value with its relation, such as ``= 0.03`` or ``< 1e-06``."""
    return f"< {SMALLEST_P:g}" if value < SMALLEST_P else f"= {value:.2g}"


ScoreVerdict = Literal["better", "worse", "not decided"]


@frozen
class ArmResult(Result):
    """Statistics of one arm: accuracy, correlation, K_eff, votes and weights.

    ``rho`` is the mean pairwise Pearson correlation, without ``rho_dropped`` constant pairs; ``k_eff`` and
    ``ceiling`` go with it, as in the paper. ``weights``, ``pruning`` and ``blocks`` (c within and
    between templates) are None under one prompt.
    """

    path: str
    n: int
    k: int
    clusters: int
    p: float
    rho: float
    rho_dropped: int
    c: Interval
    c_pooled: float
    c_anova: float
    k_eff: float
    ceiling: float
    k_eff_block: float
    block_over_vote: float
    majority: float
    plurality: float | None
    agreement: float | None
    answer_diversity: float | None
    slots: tuple[Slot, ...] | None
    slot_cv: float
    phi: PhiAudit
    weights: tuple[WeightedVote, ...] | None
    pruning: tuple[Pruning, ...] | None
    blocks: BlockCorrelation | None


# A table shows at most so many questions of a list; JSON has them all.
SHOWN = 10

# What is said in place of a list that nobody can know yet.
TOO_EARLY = "keff needs two repeats of a question on both sides to name any"


@frozen
class QuestionChange(Result):
    """One question: its mean scores on both sides, and the probability that it got worse.

    ``chance`` is None where it has only one repeat on a side.
    """

    id: str
    scores: tuple[float, float]
    chance: float | None


# Titles of lists of questions, each with its questions (None: too early).
QuestionLists = Iterable[tuple[str, Sequence[QuestionChange] | None]]


def question_rows(questions: Sequence[QuestionChange], scale: tuple[float, float]) -> list[tuple[str, ...]]:
    """Return the table of the first questions of a list, with their scores on both sides."""
    style = ".0%" if scale == (0.0, 1.0) else ".2f"
    rows = [
        (each.id, *(format(score, style) for score in each.scores), number(each.chance, ".0%"))
        for each in questions[:SHOWN]
    ]
    more = len(questions) - SHOWN
    return [
        ("question", "first", "second", "probability"),
        *rows,
        *([(f"and {more} more", *[""] * 3)] * (more > 0)),
    ]


def question_tables(lists: QuestionLists, scale: tuple[float, float]) -> Iterator[str]:
    """Yield a table for each list that has questions, and a sentence for one that nobody can know yet."""
    for title, questions in lists:
        if questions is None:
            yield f"\n{title}: {TOO_EARLY}."
        elif questions:
            yield f"\n{text_table(question_rows(questions, scale), f'{title}: {len(questions)}')}"


@frozen
class Better(Result):
    """Test of whether the second score is better: the paired difference on shared questions.

    ``difference`` is second minus first on the ``scale`` of the scores, ``p_value`` that of no difference and
    ``p_adjusted`` the same by Holm where several pairs were compared. ``noise`` is the standard deviation of
    the difference from repeats alone, ``same_model_chance`` how often two runs of one model differ as much.
    ``questions_needed`` and ``repeats_needed`` are how many in all would find a true difference of this size
    with 80% power, each with the other as it is; None where no number would. ``regressed`` are the questions
    that the second answers worse with 90% probability; None where a side has one repeat of each.
    """

    first: str
    second: str
    shared_questions: int
    shared_clusters: int
    verdict: ScoreVerdict
    difference: Interval
    p_value: float
    p_adjusted: float
    noise: float | None
    same_model_chance: float | None
    questions_needed: int | None
    repeats_needed: int | None
    scores: tuple[float, float]
    scale: tuple[float, float]
    regressed: tuple[QuestionChange, ...] | None

    @property
    def names(self) -> tuple[str, ...]:
        """Short names of both scores: the parts of their paths that differ."""
        paths = self.first, self.second
        parts = [PurePath(path).parts for path in paths]
        shared = len(commonprefix(parts))  # noqa: RUF071 - of whole parts, not of letters
        names = ("/".join(own[shared:]) or path for own, path in zip(parts, paths, strict=True))
        return tuple(name.removesuffix(".jsonl") for name in names)

    @property
    def versus(self) -> str:
        """The names of both scores, the second first."""
        return " / ".join(self.names[::-1])

    @property
    def chance(self) -> str:
        """The chance that a second run of the same model differs by as much, in words."""
        chance = self.same_model_chance
        return "unknown" if chance is None else f"{chance:.1%}" if chance >= 0.001 else "under 0.1%"

    def difference_text(self, value: float) -> str:
        """Return a difference in points with its sign; on other scales as it is."""
        return f"{100 * value:+z.1f} points" if self.scale == (0.0, 1.0) else f"{value:+.2f}"

    @property
    def limits_text(self) -> str:
        """The limits of the difference as text; empty without limits."""
        limits = self.difference.limits
        ends = (
            ""
            if limits is None
            else f"[{self.difference_text(limits[0])}, {self.difference_text(limits[1])}]"
        )
        return ends.replace(" points", "")

    def facts(self, pairs: int = 1) -> dict[str, str]:
        """Return the figures of the test, one of ``pairs``, and of what would decide it, by label."""
        noise = "unknown" if self.noise is None else self.difference_text(self.noise)
        style = ".1%" if self.scale == (0.0, 1.0) else ".2f"
        return {
            "scores": ", ".join(
                f"{name} {score:{style}}" for name, score in zip(self.names, self.scores, strict=True)
            ),
            "difference": self.difference_text(self.difference.value),
            "95% interval": self.limits_text or "–",
            "p-value" if pairs == 1 else "p-value (Holm)": p_text(self.p_adjusted).removeprefix("= "),
            "standard deviation from repeats alone": noise.lstrip("+"),
            "chance that a second run differs as much": self.chance,
            "questions needed to detect this (80% power)": _needed(self.questions_needed),
            "repeats needed to detect this": _needed(self.repeats_needed),
            "shared questions": f"{self.shared_questions:,}",
        }

    def line(self) -> str:
        """Return the verdict in one sentence."""
        first, second = self.names
        what = {
            "better": f"{second} is better than {first}",
            "worse": f"{second} is worse than {first}",
            "not decided": f"keff cannot tell whether {second} is better than {first}",
        }[self.verdict]
        limits = self.difference.limits
        between = (
            "" if limits is None else f"95% interval {self._bare(limits[0])} to {self._bare(limits[1])}, "
        )
        value = self.difference_text(self.difference.value)
        return f"{what}: {value} ({between}p {p_text(self.p_adjusted)})"

    def _bare(self, value: float) -> str:
        return self.difference_text(value).removesuffix(" points")


def _better(pairs: Sequence[Better]) -> Iterator[str]:
    """Yield for each pair the verdict, the difference, and what would decide it."""
    for pair in pairs:
        yield pair.line()
    facts = [pair.facts(len(pairs)) for pair in pairs]
    headers = (pair.versus if len(pairs) > 1 else "" for pair in pairs)
    yield "\n" + text_table([("", *headers), *((name, *(each[name] for each in facts)) for name in facts[0])])
    yield from question_tables(_lists(pairs), pairs[0].scale)


def _lists(pairs: Sequence[Better]) -> Iterator[tuple[str, Sequence[QuestionChange] | None]]:
    """Yield the questions that got worse of each pair, with a title."""
    for pair in pairs:
        title = f"Questions that got worse in {pair.names[1]}"
        yield title + (f" than in {pair.names[0]}" if len(pairs) > 1 else ""), pair.regressed


def _needed(count: int | None) -> str:
    return "no number would do" if count is None else f"{count:,}"


@frozen
class ScoreComparison(Finding):
    """Pairwise tests of two or more scores on shared questions; ``better`` is the pair of only two.

    What ``keff compare`` gives where template slots cannot be compared: more than two models, one repeat of
    each question, graded scores.
    """

    better: Better | None
    pairs: tuple[Better, ...]
    warnings: tuple[Note, ...]

    @property
    def lists(self) -> QuestionLists:
        """The questions that got worse, with a title for each pair; None where it is too early to say."""
        return _lists(self.pairs)

    def line(self) -> str:
        """Return the verdict on the first pair, and the number of other pairs."""
        more = len(self.pairs) - 1
        return self.pairs[0].line() + (f". {more} more" if more else "")

    def statements(self) -> Iterator[str]:
        """Yield what ``keff compare`` prints of several scores."""
        return _better(self.pairs)

    def rows(self) -> list[tuple[str, ...]]:
        """Return one row for each pair."""
        head = ("second / first", "difference", "p (Holm)", "")
        return [
            head,
            *((p.versus, p.difference.text("+.3f"), p_text(p.p_adjusted), p.verdict) for p in self.pairs),
        ]


@frozen
class Corrected(Result):
    """The comparison of arms by the bias-corrected c.

    Both values, the relative and the absolute change, and of K_eff.
    """

    c: tuple[float, float]
    delta_c: Interval
    delta_c_absolute: Interval
    delta_k_eff: Interval


@frozen
class Comparison(Finding):
    """The second arm compared with the first on ``shared_items`` questions.

    ``delta_rho`` is the paper's relative change of the mean pairwise correlation. ``delta_p``,
    ``delta_majority`` and ``delta_plurality`` are paired differences of shares, second minus first.
    """

    arms: tuple[ArmResult, ArmResult]
    shared_items: int
    shared_clusters: int
    design: str
    replicates: int
    delta_rho: Interval
    delta_rho_absolute: Interval
    delta_k_eff: Interval
    corrected: Corrected
    delta_p: Interval
    delta_majority: Interval
    delta_plurality: Interval | None
    better: Better
    warnings: tuple[Note, ...]

    @property
    def pairs(self) -> tuple[Better, ...]:
        """The test of the two scores, in a tuple as in ``ScoreComparison``."""
        return (self.better,)

    @property
    def lists(self) -> QuestionLists:
        """The questions that got worse, with a title for each pair; None where it is too early to say."""
        return _lists(self.pairs)

    @property
    def accuracy_changes(self) -> dict[str, Interval]:
        """Changes of the votes' accuracy from the first arm to the second, as shares of questions."""
        told = {
            "accuracy of the majority vote": self.delta_majority,
            "accuracy of the plurality": self.delta_plurality,
        }
        return {name: change for name, change in told.items() if change is not None}

    @property
    def has_ratio(self) -> bool:
        """Whether a relative change of correlation is defined: the first arm's is surely above zero."""
        limits = self.arms[0].c.limits
        return limits is not None and limits[0] > 0

    @property
    def rho_change(self) -> str:
        """The relative change of the mean pairwise correlation in percent, else the absolute one."""
        return self._change(self.delta_rho, self.delta_rho_absolute)

    def _change(self, relative: Interval, absolute: Interval) -> str:
        return relative.text("+.1%") if self.has_ratio else absolute.text("+.2f")

    def line(self) -> str:
        """Return the number of shared questions, and the changes of rho and of the vote."""
        name, vote = (
            ("plurality", self.delta_plurality) if self.delta_plurality else ("majority", self.delta_majority)
        )
        changes = f"rho changes by {self.rho_change}, {name} by {points(vote)} points"
        return f"{self.better.line()}. On {self.shared_items} shared questions {changes}"

    def statements(self) -> Iterator[str]:
        """Yield what ``keff compare`` prints of two arms; weights and blocks belong to the second."""
        yield from _better(self.pairs)
        first, second = self.arms
        size = f"{self.shared_items} shared questions, {first.k} paths each"
        yield f"\n{text_table(self.rows(), size)}"
        if second.weights is not None:
            yield from weighting(second.slots, second.weights, second.pruning or ())
        blocks = second.blocks
        if blocks is not None:
            several = max(blocks.paths) > 1
            within = f"{blocks.within.text()} within a template, " if several else ""
            apart = f"; difference {blocks.difference.text('+.2f')}" if several else ""
            told = f"{within}{blocks.between.text()} between templates{apart}"
            yield f"  c {told} (95%, cluster jackknife)"

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table of both arms and the change between them."""
        first, second = self.arms
        templates = [
            ("rho / its maximum", number(first.phi.ratio), number(second.phi.ratio), ""),
            ("slot sd / mean", number(first.slot_cv), number(second.slot_cv), ""),
        ]
        return [
            ("", *self.better.names, "change"),
            *(
                (name, number(one, ".1%"), number(other, ".1%"), f"{points(change)} points")
                for name, one, other, change in (
                    ("one path", first.p, second.p, self.delta_p),
                    ("majority vote", first.majority, second.majority, self.delta_majority),
                    ("plurality", first.plurality, second.plurality, self.delta_plurality),
                )
            ),
            (
                "c, bias-corrected",
                first.c.text(),
                second.c.text(),
                self._change(self.corrected.delta_c, self.corrected.delta_c_absolute),
            ),
            ("K_eff", number(first.k_eff), number(second.k_eff), self.delta_k_eff.text("+.2f")),
            ("mean pairwise rho", number(first.rho), number(second.rho), self.rho_change),
            *(templates if first.slots or second.slots else ()),
        ]
