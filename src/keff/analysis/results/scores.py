"""Results of ``keff noise`` and ``keff audit``: noise of a score, and suspect gold answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keff.records import Finding, Interval, Note, Result, frozen, number, percent, text_table

# Rows in a table for people; JSON and the page have all of them.
SHOWN = 6
SEVERAL = "Questions with one right, all right, or all alike in k tries of each"
# Columns of a table of power that fit 80 characters, and rows of one that splits the answers otherwise.
SHOWN_REPEATS = 5


@frozen
class Suspect(Result):
    """A question whose gold answer should be checked: the branches agree on another one.

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


@frozen
class Audit(Finding):
    """Suspect gold answers among ``n`` questions, the most probably wrong first.

    ``score`` is the mean over questions and branches as marked; ``score_if_right`` is the same if the
    agreed answer of every suspect is right. ``ceiling`` is the share of questions that some path of some
    branch gets right, which no vote can exceed. ``never_right`` is the rest.
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
        """Return the number of suspect gold answers, and the score if they were corrected."""
        if not self.suspects:
            return f"None of the {self.n:,} gold answers looks wrong"
        wrong = round(sum(each.posterior for each in self.suspects))
        first = min(len(self.suspects), SHOWN)
        start = "check this one" if len(self.suspects) == 1 else f"start with these {first}"
        if not wrong:
            return f"Probably none of the {self.n:,} gold answers is wrong. To be sure, {start}"
        verb = "is" if wrong == 1 else "are"
        return f"About {wrong} of {self.n:,} gold answers {verb} probably wrong; {start}"

    def statements(self) -> Iterator[str]:
        """Yield what ``keff audit`` prints."""
        yield f"{self.line()}."
        if self.suspects:
            yield f"{self.effect()}."
        yield f"{self.limit()}."
        if self.suspects:
            yield f"\n{text_table(self.rows())}"
        if len(self.suspects) > SHOWN:
            yield f"  and {len(self.suspects) - SHOWN} more: --report PAGE.html and --json list them all"

    def effect(self) -> str:
        """Return the sentence on what correcting gold answers would do to the score."""
        count = len(self.suspects)
        which = "it is" if count == 1 else f"all {count} suspects are"
        same = sum(each.equal_under is not None for each in self.suspects)
        equal = f". {same} of them equal the agreed answer, written otherwise" if same else ""
        return (
            f"The score is {self.score.value:.1%}. If {which} wrong, it becomes "
            f"{self.score_if_right.value:.1%}{equal}"
        )

    def limit(self) -> str:
        """Return the sentence on the upper limit of any vote."""
        if self.ceiling.value >= 1:
            return "On every question some answer was right, so a vote has no upper limit here"
        limit = f"Upper limit {self.ceiling.value:.1%}"
        return f"{limit}: on the other questions no model ever gave the right answer"

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table of the most probably wrong gold answers."""
        head = ("question", "gold wrong", "gold answer", "most given", "share", "equal as")
        return [
            head,
            *(
                (s.id, f"{s.posterior:.0%}", s.gold_answer, s.agreed, f"{s.share:.0%}", s.equal_under or "")
                for s in self.suspects[:SHOWN]
            ),
        ]


@frozen
class VarianceSplit(Result):
    """Variance of one answer: between clusters (None without any), questions, and within questions.

    Within, ``sources`` is what lies between the sources of paths (None: repeats of one); ``repeats`` is the
    rest, the luck of one answer.
    """

    questions: float
    repeats: float
    clusters: float | None
    sources: float | None = None


@frozen
class PowerLine(Result):
    """Minimum detectable difference of two models with ``questions`` x ``repeats``, 80% power at 5%.

    ``difference`` for new questions like these, ``these_questions`` for a set of these very questions.
    """

    questions: int
    repeats: int
    difference: float
    these_questions: float


@frozen
class EqualCost(Result):
    """Standard error of a score from ``questions`` x ``repeats`` answers to questions like these."""

    questions: int
    repeats: int
    standard_error: float


@frozen
class Design(Result):
    """Standard error of the score where each of ``sources`` answers each of ``questions`` in every trial.

    ``standard_error`` for new questions like these, ``these_questions`` for as many that stay the same.
    """

    questions: int
    sources: int
    trials: int
    standard_error: float
    these_questions: float


@frozen
class SourceNoise(Result):
    """What slots, judges, prompts or branches add to the noise of a score.

    ``random`` says that they are a sample of many. ``scores`` is each one's mean score, ``new_source`` the
    score that another one would give on these questions (a prediction), ``sd`` the standard deviation between
    sources beyond the luck of trials, ``designs`` the standard errors that other numbers of questions and
    sources would have. None and none where questions and sources cannot be told apart.
    """

    random: bool
    scores: Mapping[str, float]
    new_source: Interval | None
    sd: Interval | None
    designs: tuple[Design, ...]


@frozen
class Noise(Finding):
    """Noise of the score of ``n`` questions with ``k`` or more repeats each, on its own ``scale``.

    ``score`` has the interval for questions like these. ``run_to_run_sd`` is the standard deviation of
    one run's score on these very questions; two runs differ by more than ``gap_of_two_runs`` by chance in
    1 of 20 cases. ``c`` is the intraclass correlation of repeats. ``pass_at_k`` is the share of questions
    that at least one of k tries gets right, ``pass_hat_k`` that all k do. ``flips`` is the share whose
    outcome differs between two runs, and ``groups_without_gradient`` the share of groups of G tries that
    are all right or all wrong. These are None if scores are graded. With one repeat of each question all
    but the score is None. ``sources`` is the noise that prompts, judges or models add, if paths come from
    several. If these are a sample of many, all intervals are for others too, and a run is one of another
    source.
    """

    n: int
    k: int
    clusters: int
    score: Interval
    run_to_run_sd: Interval | None
    gap_of_two_runs: float | None
    c: Interval | None
    variance: VarianceSplit | None
    pass_at_k: Mapping[int, Interval] | None
    pass_hat_k: Mapping[int, Interval] | None
    flips: Interval | None
    groups_without_gradient: Mapping[int, Interval] | None
    power: tuple[PowerLine, ...]
    equal_cost: tuple[EqualCost, ...]
    scale: tuple[float, float]
    warnings: tuple[Note, ...]
    sources: SourceNoise | None = None

    @property
    def shares(self) -> bool:
        """Whether scores are on 0 to 1 and shown in percent."""
        return self.scale == (0.0, 1.0)

    def score_text(self, value: Interval | float | None, *, points: bool = False) -> str:
        """Return a score in percent, or a difference in points; on other scales as it is."""
        if value is None:
            return "–"
        style = "{:.1f}" if self.shares else "{:.2f}"
        unit = "" if not self.shares else " points" if points else "%"
        factor = 100 if self.shares else 1
        if not isinstance(value, Interval):
            return style.format(factor * value) + unit
        limits = value.limits
        ends = "" if limits is None else " [{}, {}]".format(*(style.format(factor * end) for end in limits))
        return style.format(factor * value.value) + unit + ends

    def line(self) -> str:
        """Return the score with its run-to-run error, in one sentence."""
        known = "unknown" if self.run_to_run_sd is None else self.score_text(self.run_to_run_sd, points=True)
        clusters = f" in {self.clusters} clusters" if self.clusters < self.n else ""
        size = f"{self.n:,} questions x {self.k} repeats{clusters}"
        if self.sources is not None:
            size += f" of {len(self.sources.scores)} sources"
        return f"{size}: score {self.score_text(self.score)}, standard deviation of one run {known}"

    def statements(self) -> Iterator[str]:
        """Yield what ``keff noise`` prints: the score, its noise, and the power of comparisons."""
        yield f"{self.sentence()}."
        yield self.line()
        yield f"\n{text_table(self.rows())}"
        if several := self.several_rows():
            yield f"\n{text_table(several, SEVERAL)}"
        if self.power:
            title = (
                "Smallest difference you can detect (80% power, in points), on new questions; in brackets on "
                "these very questions"
            )
            yield f"\n{text_table([line[: 1 + SHOWN_REPEATS] for line in self.power_rows()], title)}"
        if self.equal_cost:
            rows = [("questions x repeats", "margin (95%)")]
            for line in self.equal_cost[:SHOWN_REPEATS]:
                off = self.score_text(1.96 * line.standard_error, points=True)
                rows.append((f"{line.questions:,} x {line.repeats}", f"± {off}"))
            yield f"\n{text_table(rows, 'The same number of answers, split differently')}"
        if self.sources is not None:
            yield f"\n{text_table(self.source_rows())}"
        if self.sources is not None and self.sources.designs:
            title = (
                "Standard error of the score with other numbers, in points, on new questions; in brackets on "
                "these very questions"
            )
            yield f"\n{text_table([line[: 1 + SHOWN_REPEATS] for line in self.design_rows()], title)}"

    def source_rows(self) -> list[tuple[str, str]]:
        """Return the table of each source's score, the highest first."""
        if self.sources is None:
            return []
        named = sorted(self.sources.scores.items(), key=lambda pair: -pair[1])
        rows = [("source", "score"), *((name, self.score_text(score)) for name, score in named[:SHOWN])]
        return [*rows, (f"and {len(named) - SHOWN} more", "")] if len(named) > SHOWN else rows

    def design_rows(self) -> list[tuple[str, ...]]:
        """Return the table of standard errors by questions and sources, one trial each."""
        found = () if self.sources is None else self.sources.designs
        lines = {(line.questions, line.sources): line for line in found if line.trials == 1}
        sizes, sources = (sorted({place[axis] for place in lines}) for axis in (0, 1))

        def told(line: Design) -> str:
            return (
                f"{self.score_text(line.standard_error)} ({self.score_text(line.these_questions)})".replace(
                    "%", ""
                )
            )

        return [
            ("questions", *(f"{number} source{'s' * (number > 1)}" for number in sources)),
            *((f"{n:,}", *(told(lines[n, number]) for number in sources)) for n in sizes),
        ]

    def sentence(self) -> str:
        """Return the smallest difference of two scores that is more than chance, in a sentence."""
        if self.gap_of_two_runs is None and self.sources is not None:
            return "keff cannot tell yet what another source would score"
        if self.gap_of_two_runs is None:
            return "keff cannot tell the noise of the score yet. Run every question once more"
        gap = self.score_text(self.gap_of_two_runs, points=True)
        if self.sources is not None and self.sources.random:
            return f"Two sources like these can differ on these questions by up to {gap} by chance"
        return f"Two runs of the same model on these questions can differ by up to {gap} by chance"

    def rows(self) -> list[tuple[str, str]]:
        """Return the table of the main figures."""
        also = "" if self.sources is None or self.sources.new_source is None else " and sources"
        rows = [("", "value [95%]"), (f"score, for questions{also} like these", self.score_text(self.score))]
        if self.sources is not None and self.sources.new_source is not None:
            rows += [
                ("score that another source would give", self.score_text(self.sources.new_source)),
                ("standard deviation between sources", self.score_text(self.sources.sd, points=True)),
            ]
        if self.run_to_run_sd is None or self.variance is None:
            return rows
        run = "source" if also else "run"
        rows += [
            (
                f"standard deviation of one {run} on these questions",
                self.score_text(self.run_to_run_sd, points=True),
            ),
            (
                f"largest difference of two {run}s by chance (95%)",
                self.score_text(self.gap_of_two_runs, points=True),
            ),
            (f"correlation c of {'two sources' if also else 'the repeats of a question'}", number(self.c)),
        ]
        parts = {"clusters": self.variance.clusters, "questions": self.variance.questions}
        parts["sources"] = self.variance.sources
        parts["repeats" if self.sources is None else "trials"] = self.variance.repeats
        total = sum(value or 0.0 for value in parts.values())
        shared = ", ".join(
            f"{name} {(value / total if total else 0):.0%}"
            for name, value in parts.items()
            if value is not None
        )
        rows.append(("where the variance of one answer comes from", shared))
        if self.flips is not None:
            rows.append(("questions that flip between two runs", self.flips.percent()))
        return rows

    def several_rows(self) -> list[tuple[str, ...]]:
        """Return the table of several tries of a question: one right, all right, all alike; or nothing."""
        found = [table or {} for table in (self.pass_at_k, self.pass_hat_k, self.groups_without_gradient)]
        sizes = sorted({k for table in found for k in table if k > 1})
        head = ("", "one right (pass@k)", "all right (pass^k)", "all right or all wrong")
        rows = [(f"{k} tries", *(percent(table.get(k)) for table in found)) for k in sizes]
        return [head, *rows] if rows else []

    def power_rows(self) -> list[tuple[str, ...]]:
        """Return the table of minimum detectable differences for new (for these) questions."""
        lines = {(line.questions, line.repeats): line for line in self.power}
        sizes, repeats = (sorted({place[axis] for place in lines}) for axis in (0, 1))

        def told(line: PowerLine) -> str:
            return f"{self.score_text(line.difference)} ({self.score_text(line.these_questions)})".replace(
                "%", ""
            )

        return [
            ("questions", *(f"{r} repeat{'s' * (r > 1)}" for r in repeats)),
            *((f"{n:,}", *(told(lines[n, r]) for r in repeats)) for n in sizes),
        ]
