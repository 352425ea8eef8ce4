"""What ``keff audit`` finds: gold answers that are suspect, and the ceiling of every vote."""

from __future__ import annotations

from dataclasses import dataclass

from keff.records import Finding, Interval, Note, Result

# Suspects in a table for people; JSON and the page have all of them.
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Suspect(Result):
    """A question whose gold answer is suspect: its branches agree on another one.

    ``share`` of the paths say ``agreed``, in ``branches`` branches the most frequent answer; ``posterior`` is
    the probability that the gold answer is wrong. ``equal_under`` names an answer space in which the two are
    equal: then they are one answer that was marked as two.
    """

    id: str
    question: str | None
    gold_answer: str
    agreed: str
    share: float
    branches: int
    posterior: float
    equal_under: str | None


@dataclass(frozen=True, slots=True, repr=False)
class Audit(Finding):
    """Suspect gold answers of ``n`` questions, equal ones first, then by ``posterior``.

    ``score`` is the mean over questions and branches as marked, ``score_if_right`` with the agreed answers of
    all suspects as right. ``ceiling`` is the share of questions that some path of some branch gets right: no
    vote passes it. ``never_right`` is the rest.
    """

    n: int
    suspects: tuple[Suspect, ...]
    score: Interval
    score_if_right: Interval
    ceiling: Interval
    never_right: float
    branches: tuple[str, ...]
    warnings: tuple[Note, ...]

    def line(self) -> str:
        """Return how many gold answers are suspect, and what the score becomes."""
        equal = sum(each.equal_under is not None for each in self.suspects)
        also = f", {equal} of them equal to the answer agreed on" if equal else ""
        return (
            f"{len(self.suspects)} of {self.n:,} gold answers are suspect{also}; score "
            f"{self.score.percent()}, with theirs {self.score_if_right.percent()}; "
            f"no vote passes {self.ceiling.percent()}"
        )

    def rows(self) -> list[tuple[str, ...]]:
        """Return the first suspects."""
        head = ("question", "gold answer", "agreed", "share", "P(gold wrong)", "equal as")
        return [
            head,
            *(
                (s.id, s.gold_answer, s.agreed, f"{s.share:.0%}", f"{s.posterior:.2f}", s.equal_under or "")
                for s in self.suspects[:SHOWN]
            ),
        ]
