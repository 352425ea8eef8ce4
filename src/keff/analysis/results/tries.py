"""Result of answers that a checker passes or fails: what tries reach, and what another one is worth."""

from __future__ import annotations

from collections.abc import Iterator

from keff.records import Finding, Interval, Result, frozen, percent, text_table

# Tries that a table shows: each of the first ones, for most people allow no more.
SHOWN = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


@frozen
class TryLine(Result):
    """At most ``tries`` tries of a question: what they reach, and what one more is worth.

    ``right`` is the share of questions on which a right answer passes, measured up to the recorded tries and
    predicted beyond them. ``paths`` are the tries made on average. ``next_right`` is the chance that one more
    is right where all failed, and ``worth`` what a right answer must be worth for it to pay, in costs of a
    try (None where it never does). ``wrong`` is the share of the answers that pass and are wrong (None where
    the checker makes no mistake, or none is known).
    """

    tries: int
    right: Interval
    paths: Interval
    next_right: Interval
    worth: float | None
    wrong: float | None = None


@frozen
class Tries(Finding):
    """What tries reach on ``n`` questions of ``k`` recorded tries, by their number.

    ``never`` is the share of questions that no number of tries solves, expected by the law of tries.
    ``false_accept`` is the share of wrong answers that pass: measured where the record has gold answers and
    verdicts, else as stated (None: the checker is taken to be right). ``false_reject`` is the share of right
    answers that fail (None without gold answers).
    """

    n: int
    k: int
    lines: tuple[TryLine, ...]
    never: Interval
    false_accept: Interval | None = None
    false_reject: Interval | None = None

    def line(self) -> str:
        """Return what the first and all recorded tries reach."""
        first, last = self.lines[0], next(row for row in self.lines if row.tries == self.k)
        return f"1 try is right on {percent(first.right)} of questions, {self.k} on {percent(last.right)}"

    def rows(self) -> list[tuple[str, ...]]:
        """Return one row for each number of tries that people ask about."""
        head = ["tries", "right", "made", "next right", "pays from"]
        wrong = any(row.wrong is not None for row in self.lines)
        rows = [(*head, *(["wrong"] * wrong))]
        for row in self.lines:
            if row.tries not in SHOWN and row.tries != self.k:
                continue
            shown = [str(row.tries), row.right.percent(), f"{row.paths.value:.2f}", row.next_right.percent()]
            shown.append("–" if row.worth is None else f"{row.worth:.3g}")
            rows.append((*shown, *([percent(row.wrong)] * wrong)))
        return rows

    def statements(self) -> Iterator[str]:
        """Yield the table of tries and the sentences on what no retry solves, and on a checker that errs."""
        yield text_table(self.rows())
        yield (
            "Made is the mean number of tries. Next right is the chance that one more try is right after all "
            "these failed. Pays from is how many tries a right answer must be worth for one more try to pay."
        )
        if any(row.wrong is not None for row in self.lines):
            yield "Wrong is the share of wrong answers among those that pass. It grows with every try."
        if given_by_user(self.false_accept):
            yield "keff works these figures out from the share of wrong answers that you say pass."
        else:
            yield f"keff measured the share right up to your {self.k} recorded tries, and predicts the rest."
        limits = self.never.limits
        if limits is not None:
            lo, hi = limits
            yield (
                f"We expect that no number of tries solves {self.never.value:.0%} of questions like these "
                f"(95% interval {lo:.0%} to {hi:.0%}): ask another model there (keff mix)."
            )
        if self.false_accept is not None and not given_by_user(self.false_accept):
            rejects = (
                "" if self.false_reject is None else f", and fails {percent(self.false_reject)} of right ones"
            )
            yield f"The checker passes {percent(self.false_accept)} of wrong answers{rejects}."


def given_by_user(share: Interval | None) -> bool:
    """Return whether a share of false accepts is the user's own, and not measured."""
    return share is not None and share.limits is None
