"""Pages of ``keff noise``, ``keff compare`` and ``keff audit``: answer, chart, tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from keff.analysis.results.comparison import Comparison, ScoreComparison
from keff.analysis.results.scores import SEVERAL, Audit, Noise
from keff.analysis.results.words import plural
from keff.files import write_text
from keff.reading.open import Record
from keff.records import Interval, Note, frozen
from keff.report.items import TEXTS_LIMIT, Row, rows_of
from keff.report.series import Datasets, limits
from keff.report.template import drawings, render


@frozen
class Bar:
    """One row of a forest plot: name, interval, and the range of chance around 0."""

    name: str
    value: Interval
    chance: float | None = None


def forest(bars: Sequence[Bar]) -> Datasets:
    """Return a forest plot's rows on one axis, with a line at 0."""
    places = list(enumerate(bars))
    return {
        "rows": [
            {"place": place, "name": _short(bar.name), "told": bar.name, **limits(bar.value)}
            for place, bar in places
        ],
        "chance": [
            {"place": place, "from": -bar.chance, "to": bar.chance}
            for place, bar in places
            if bar.chance is not None
        ],
        "zero": [{"zero": 0.0}],
    }


def _short(name: str) -> str:
    # As many letters as fit a telephone; what tells files apart is mostly at their end.
    return name if len(name) <= 50 else f"…{name[-49:]}"


def power(found: Noise) -> Datasets:
    """Return the smallest difference that can be detected, by number of questions, at the repeats at hand."""
    return {
        "power": [
            {
                "questions": line.questions,
                "repeats": line.repeats,
                "difference": line.difference,
                "told": f"{line.questions:,} x {line.repeats}: "
                + found.score_text(line.difference, points=True),
            }
            for line in found.power
            if line.repeats == _at_hand(found)
        ]
    }


def _at_hand(found: Noise) -> int:
    """Return the number of repeats in the table of power that is nearest to the recorded one."""
    return max((line.repeats for line in found.power if line.repeats <= found.k), default=1)


# Title, headers and rows.
TextTable = tuple[str, Sequence[str], Sequence[Sequence[str]]]


@frozen
class Sheet:
    """Content of one page: question, answer, figures, chart with legend, tables.

    ``samples`` are what the rows of the first table open on: the answers of each branch, by its name.
    """

    title: str
    about: str
    answer: str
    tiles: Sequence[tuple[str, str]]
    lines: Sequence[str]
    chart: str
    data: Datasets
    heading: str
    caption: str
    tables: Sequence[TextTable]
    warnings: Sequence[Note]
    samples: Sequence[Sequence[tuple[str, Row]]] = ()


def write_noise_page(found: Sequence[tuple[str, Noise]], file: Path) -> None:
    """Write the page of one or several scores; raises OSError when it cannot be written."""
    _write([_noise_sheet(path, noise) for path, noise in found], file)


def write_comparison_page(compared: Comparison | ScoreComparison, file: Path) -> None:
    """Write the page of a comparison; raises OSError when it cannot be written."""
    pairs = compared.pairs
    first = pairs[0]
    one, second = first.names
    alone = len({pair.first for pair in pairs}) == 1
    bars = [
        Bar(
            pair.names[1] if alone else pair.versus,
            pair.difference,
            None if pair.noise is None else 1.96 * pair.noise,
        )
        for pair in pairs
    ]
    facts = [pair.facts(len(pairs)) | {"verdict": pair.verdict} for pair in pairs]
    headers = ("", *(pair.versus for pair in pairs)) if len(pairs) > 1 else ("", f"{second} minus {one}")
    decided = [(name, *(each[name] for each in facts)) for name in facts[0]]
    tables: list[TextTable] = [("The difference in numbers", headers, decided)]
    if isinstance(compared, Comparison):
        bars[0] = replace(bars[0], name="accuracy of one path")
        bars += [Bar(name, change) for name, change in compared.accuracy_changes.items()]
        head, *arms = compared.rows()
        tables.append((f"{one} and {second} side by side", head, arms))
    sheet = Sheet(
        title="Is it better?",
        about=f"{first.shared_questions:,} shared questions",
        answer=".\n".join(pair.line() for pair in pairs[:3]),
        tiles=[],
        lines=[],
        chart=_chart("forest", shares=first.scale == (0.0, 1.0)),
        data=forest(bars),
        heading="The difference, beside what chance gives",
        caption=(f"Difference from {first.names[0]}; " if alone else "Second minus first; ")
        + "right is better. Lines are 95% intervals for questions like these. The grey band is what chance "
        "gives when a model is compared with itself.",
        tables=tables,
        warnings=compared.warnings,
    )
    _write([sheet], file)


def _chart(name: str, *, shares: bool) -> str:
    return f"{name}_{'shares' if shares else 'scores'}"


def write_audit_page(found: Audit, records: Sequence[Record], file: Path) -> None:
    """Write the page of an audit of these records; raises OSError when it cannot be written.

    Each suspect opens on the answers of every branch, with their texts where the records were opened with
    them, up to a size limit.
    """
    ids, limit = [each.id for each in found.suspects], TEXTS_LIMIT // len(records)
    given = [rows_of(record, ids, limit) for record in records]
    rows = [
        (
            each.id,
            each.question or "",
            each.agreed,
            each.gold_answer,
            f"{each.posterior:.0%}",
            f"{each.share:.0%}",
            each.equal_under or "",
        )
        for each in found.suspects
    ]
    headers = (
        "id",
        "question",
        "most given answer",
        "gold answer",
        "chance that gold is wrong",
        "share of answers that agree",
        "equal as",
    )
    # A log without texts, or without unequal forms, has nothing to say there.
    told = [place for place in range(len(headers)) if any(row[place] for row in rows)]
    sheet = Sheet(
        title="Which gold answers may be wrong?",
        about=f"{found.n:,} questions, {len(found.branches)} branch{'es' * (len(found.branches) > 1)}",
        answer=found.line(),
        tiles=[],
        lines=[f"{found.limit()}."] if not found.suspects else [f"{found.effect()}.", f"{found.limit()}."],
        chart="",
        data={},
        heading="",
        caption="",
        tables=[
            (
                "Gold answers to check",
                [headers[i] for i in told],
                [tuple(row[i] for i in told) for row in rows],
            )
        ],
        warnings=found.warnings,
        samples=[
            [(name, own[each]) for name, own in zip(found.branches, given, strict=True) if each in own]
            for each in ids
        ],
    )
    _write([sheet], file)


def _noise_sheet(path: str, found: Noise) -> Sheet:
    head, *rows = found.rows()
    headers, *smallest = found.power_rows()
    return Sheet(
        title="How far to trust this score",
        about=f"{path}: {found.n:,} questions, {found.k} repeats",
        answer=found.sentence(),
        tiles=[
            ("score, for questions like these", found.score_text(found.score)),
            ("standard deviation of one run", found.score_text(found.run_to_run_sd, points=True)),
        ],
        lines=[],
        chart=_chart("power", shares=found.shares),
        data=power(found) if found.power else {},
        heading="More questions find smaller differences",
        caption="The smallest difference between two models that you can detect, by the number of questions, "
        f"with {plural(_at_hand(found), 'repeat')} of each; lower is better. With 80% power at 5%, on new "
        "questions that both models answer.",
        tables=[
            ("The score and its noise", head, rows),
            *([(SEVERAL, several[0], several[1:])] if (several := found.several_rows()) else []),
            (
                "Smallest difference you can detect, on new questions (in brackets: on these)",
                headers,
                smallest,
            ),
        ],
        warnings=found.warnings,
    )


def _write(sheets: Sequence[Sheet], file: Path) -> None:
    charts = {str(place): {sheet.chart: sheet.data} for place, sheet in enumerate(sheets) if sheet.data}
    drawn = {int(place): drawing for (place, _), drawing in drawings(charts, titles=True).items()}
    write_text(file, render("evals.html.j2", sheets=sheets, drawn=drawn))
