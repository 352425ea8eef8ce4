"""Result of ``keff compare --gate``, and the Markdown of comparisons for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from keff.analysis.results.comparison import (
    TOO_EARLY,
    Comparison,
    QuestionChange,
    QuestionLists,
    ScoreComparison,
    question_rows,
    question_tables,
)
from keff.analysis.results.words import plural
from keff.records import Finding, Interval, Note, frozen, number, text_table

GateVerdict = Literal["pass", "worse", "repeat", "undecided"]

# The first line of a comment, by which the next one finds it.
MARK = "<!-- keff -->"


@frozen
class Gate(Finding):
    """Whether a run became worse than its baseline by no more than the tolerance.

    ``difference`` is run minus baseline on the ``scale`` of the scores; its limits hold for all looks
    together. The verdict is "pass" if the lower limit is above minus ``tolerance`` (in points for scores
    of 0 to 1), "worse" if the upper limit is below 0, and else "repeat" until ``max_repeats``. With
    ``new_questions`` the limits are over clusters of questions, and no further repeat is asked for.
    ``regressed`` are the questions that lost with 90% probability (None: too early to name any),
    ``flaky`` those about which another repeat says most. ``chance_to_pass`` is the chance of an unchanged
    run to pass at the last look; with ``questions_needed`` questions it would be 80%.
    """

    verdict: GateVerdict
    baseline: str
    run: str
    difference: Interval
    tolerance: float
    repeats: tuple[int, int]
    max_repeats: int
    new_questions: bool
    shared_questions: int
    shared_clusters: int
    scores: tuple[float, float]
    scale: tuple[float, float]
    regressed: tuple[QuestionChange, ...] | None
    flaky: tuple[QuestionChange, ...]
    chance_to_pass: float
    questions_needed: int | None
    warnings: tuple[Note, ...]

    def line(self) -> str:
        """Return the verdict in one sentence, with the loss and what may be lost."""
        lost, most = (
            self._difference_text(self.difference.value),
            self._difference_text(self.difference.lo or 0.0),
        )
        repeats = plural(self.repeats[1], "repeat")
        allowed = self._size(self.tolerance / (100 if self.scale == (0.0, 1.0) else 1))
        if self.verdict == "pass":
            bound = f", at most {most}" if (self.difference.lo or 0.0) < 0 else ""
            return f"Pass after {repeats}: {lost}{bound}, within the {allowed} you allow"
        if self.verdict == "worse":
            return f"Worse after {repeats}: {lost}, which chance does not explain (you allow {allowed})"
        between = (
            f"{lost} so far, but it may be from {most} to {self._difference_text(self.difference.hi or 0.0)}"
        )
        if self.verdict == "repeat":
            return f"Repeat once more: {between} ({self.repeats[1]} of at most {self.max_repeats} repeats)"
        if self.new_questions:
            needed = "" if self.questions_needed is None else f": about {self.questions_needed:,} would do"
            return f"Not decided: {between}. More questions decide this, not more repeats{needed}"
        return f"Not decided after {repeats}: {between}"

    def _size(self, value: float) -> str:
        return f"{100 * abs(value):.3g} points" if self.scale == (0.0, 1.0) else f"{abs(value):.3g}"

    def _difference_text(self, value: float) -> str:
        """Return a difference in words, such as ``1.2 points lost``."""
        places = 1 if self.scale == (0.0, 1.0) else 2
        size = abs(value) * (100 if places == 1 else 1)
        if round(size, places) == 0:
            return "nothing lost"
        unit = " points" if places == 1 else ""
        return f"{size:.{places}f}{unit} {'lost' if value < 0 else 'gained'}"

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table of scores, repeats and questions."""
        style = ".1%" if self.scale == (0.0, 1.0) else ".2f"
        asked = f"{self.shared_questions:,}"
        return [
            ("", "baseline", "run"),
            ("score", *(number(score, style) for score in self.scores)),
            ("repeats", *map(str, self.repeats)),
            ("questions", asked, asked),
        ]

    @property
    def lists(self) -> QuestionLists:
        """The questions that got worse (None: too early to say) and the flaky ones, with titles."""
        return ("Questions that got worse", self.regressed), ("Flaky questions", self.flaky)

    def statements(self) -> Iterator[str]:
        """Yield what ``keff compare --gate`` prints."""
        yield f"{self.line()}."
        yield f"\n{text_table(self.rows())}"
        yield from question_tables(self.lists, self.scale)


def markdown(found: Gate | Comparison | ScoreComparison) -> str:
    """Return a comparison as the Markdown of a comment: verdict, table, notes, questions in folds."""
    lines = [MARK, f"### {_plain(found.line())}", "", *_table(found.rows())]
    # What voids the result comes before what follows from it.
    lines += [f"> **Note:** {_plain(note.message)}\n" for note in found.warnings]
    scale = found.scale if isinstance(found, Gate) else found.pairs[0].scale
    for title, questions in found.lists:
        if questions is None:
            lines += [f"{_plain(title)}: {TOO_EARLY}.", ""]
        elif questions:
            fold = f"<details><summary>{_plain(title)}: {len(questions)}</summary>"
            lines += [fold, "", *_table(question_rows(questions, scale)), "</details>", ""]
    return "\n".join(lines)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *rest = [f"| {' | '.join(map(_plain, row))} |" for row in rows]
    return [head, "|---" * len(rows[0]) + "|", *rest, ""]


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is: names of questions come from records, and may be hostile."""
    shown = re.sub(r"\s+", " ", "".join(char for char in text if char.isprintable() or char.isspace()))
    shown = shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # A name after @ would be told of the comment; a character without width keeps it a text.
    return re.sub(r"([\\`*_{}\[\]()#+!|~$])", r"\\\1", shown).replace("@", "@\u200b")
