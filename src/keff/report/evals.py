"""Pages of ``keff noise``, ``keff compare`` and ``keff audit``: answer, chart, tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from keff.analysis.results.comparison import Comparison, ScoreComparison
from keff.analysis.results.scores import Audit, Noise
from keff.console import harmless
from keff.files import write_text
from keff.records import Interval, Note, frozen
from keff.report.series import Datasets, limits
from keff.report.template import colour, drawings, filled


@frozen
class Bar:
    """One row of a forest plot: name, interval, and the range of chance around 0."""

    name: str
    value: Interval
    chance: float | None = None


def forest(bars: Sequence[Bar], *, zero: bool) -> Datasets:
    """Return a forest plot's rows on one axis, with a line at 0 where ``zero``."""
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
        "zero": [{"zero": 0.0}] if zero else [],
    }


def _short(name: str) -> str:
    # As many letters as fit a telephone; what tells files apart is mostly at their end.
    return name if len(name) <= 50 else f"…{name[-49:]}"


def power(found: Noise) -> Datasets:
    """Return the minimum detectable difference by number of questions, one line per number of repeats."""
    repeats = sorted({line.repeats for line in found.power})
    return {
        "power": [
            {
                "questions": line.questions,
                "repeats": line.repeats,
                "difference": line.difference,
                "colour": colour(repeats.index(line.repeats)),
                "told": f"{line.questions:,} x {line.repeats}: {found.said(line.difference, points=True)}",
            }
            for line in found.power
        ]
    }


# Title, headers and rows.
TextTable = tuple[str, Sequence[str], Sequence[Sequence[str]]]


@frozen
class Sheet:
    """Content of one page: question, answer, figures, chart with legend, tables."""

    title: str
    about: str
    answer: str
    tiles: Sequence[tuple[str, str]]
    chart: str
    data: Datasets
    caption: str
    tables: Sequence[TextTable]
    warnings: Sequence[Note]
    legend: Sequence[tuple[str, str]] = ()


def write_noise_page(found: Sequence[tuple[str, Noise]], file: Path) -> None:
    """Write the page of one or several scores; raises OSError when it cannot be written."""
    _write([_noise_sheet(path, noise) for path, noise in found], file)


def write_comparison_page(compared: Comparison | ScoreComparison, file: Path) -> None:
    """Write the page of a comparison; raises OSError when it cannot be written."""
    pairs = compared.pairs
    first = pairs[0]
    alone = len({pair.first for pair in pairs}) == 1
    bars = [
        Bar(
            pair.names[1] if alone else pair.versus,
            pair.difference,
            None if pair.noise is None else 1.96 * pair.noise,
        )
        for pair in pairs
    ]
    decided = [(pair.versus, *pair.facts().values(), pair.verdict) for pair in pairs]
    headers, units = ("second / first", *first.facts(), "verdict"), ""
    tables: list[TextTable] = [("What would decide it", headers, decided)]
    if isinstance(compared, Comparison):
        bars += [Bar(name, change) for name, change in compared.changes.items()]
        head, *arms = compared.rows()
        units = " Accuracies differ in points, the correlation in percent of the first."
        tables.append(("Both arms", head, arms))
    sheet = Sheet(
        title="Is it better?",
        about=f"{len(pairs)} comparison{'s' * (len(pairs) > 1)} on shared questions",
        answer=".\n".join(pair.line() for pair in pairs[:3]),
        tiles=[],
        chart=_chart("forest", shares=first.scale == (0.0, 1.0)),
        data=forest(bars, zero=True),
        caption=(f"Each minus {first.names[0]}. " if alone else "The second minus the first. ")
        + "Lines are 95% intervals over questions like these. Grey is what repeats alone give on these "
        "very questions, in 19 of 20 comparisons of a model with itself." + units,
        tables=tables,
        warnings=compared.warnings,
    )
    _write([sheet], file)


def _chart(name: str, *, shares: bool) -> str:
    return f"{name}_{'shares' if shares else 'scores'}"


def write_audit_page(found: Audit, file: Path) -> None:
    """Write the page of an audit; raises OSError when it cannot be written."""
    bars = [
        Bar("score as marked", found.score),
        Bar("score if all of them are wrong", found.score_if_right),
        Bar("ceiling of every vote", found.ceiling),
    ]
    rows = [
        (
            each.id,
            each.question or "",
            f"{each.posterior:.2f}",
            each.gold_answer,
            each.agreed,
            f"{each.share:.0%}",
            each.equal_under or "",
        )
        for each in found.suspects
    ]
    headers = (
        "id",
        "question",
        "P(gold is wrong)",
        "gold answer",
        "agreed answer",
        "its share of paths",
        "equal as",
    )
    # A log without texts, or without unequal forms, has nothing to say there.
    told = [place for place in range(len(headers)) if any(row[place] for row in rows)]
    sheet = Sheet(
        title="Which gold answers may be wrong?",
        about=f"{found.n:,} questions, {len(found.branches)} branch{'es' * (len(found.branches) > 1)}",
        answer=found.line(),
        tiles=[("no path of any branch is right", found.ceiling.mapped(lambda right: 1 - right).percent())],
        chart=_chart("forest", shares=True),
        data=forest(bars, zero=False),
        caption="Shares of questions. Lines are 95% intervals over questions like these.",
        tables=[("Worth a look", [headers[i] for i in told], [tuple(row[i] for i in told) for row in rows])],
        warnings=found.warnings,
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
            ("score, for questions like these", found.said(found.score)),
            ("one run is off by (standard deviation)", found.said(found.run_to_run_sd, points=True)),
        ],
        chart=_chart("power", shares=found.shares),
        data=power(found) if found.power else {},
        caption="The smallest difference of two models that is found with 80% power at 5%, on new questions "
        "that both answer: by the number of questions, one line for each number of repeats.",
        tables=[
            ("The score and its noise", head, rows),
            ("Smallest difference found, in points: new questions (these questions)", headers, smallest),
        ],
        warnings=found.warnings,
        legend=[(colour(place), name) for place, name in enumerate(headers[1:])],
    )


def _write(sheets: Sequence[Sheet], file: Path) -> None:
    charts = {str(place): {sheet.chart: sheet.data} for place, sheet in enumerate(sheets) if sheet.data}
    drawn = {int(place): drawing for (place, _), drawing in drawings(charts, titles=True).items()}
    write_text(file, harmless(filled("evals.html.j2", sheets=sheets, drawn=drawn)))
