"""The pages of ``keff noise``, ``keff compare`` and ``keff audit``: one answer, one picture, the tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from keff.analysis.results.comparison import Better, p_text
from keff.analysis.results.scores import Audit, Noise, PowerLine
from keff.errors import UsageError
from keff.files import write_text
from keff.records import Interval, Note, frozen
from keff.report.mix_page import WIDE, colour, round_ticks, svg_drawing, svg_line, svg_text
from keff.report.template import filled

# In units of the drawing: the margins at the sides, and a row of a name above its interval.
MARGIN, ROW = 30.0, 58.0


@frozen
class Bar:
    """One row: its name, its interval, and how far chance alone reaches to both sides of 0."""

    name: str
    value: Interval
    chance: float | None = None


def forest(bars: Sequence[Bar], title: str, *, shares: bool, zero: bool) -> Markup:
    """Return intervals in rows on one axis, with a line at 0 where ``zero``; names are escaped."""
    ends = [end for bar in bars for end in (bar.value.value, bar.value.lo, bar.value.hi) if end is not None]
    ends += [end for bar in bars if bar.chance is not None for end in (-bar.chance, bar.chance)]
    ends += [0.0] if zero else []
    low, high = min(ends), max(ends)
    # So that no bar ends on the frame; with one value alone the axis still has a length.
    room = max(high - low, 1e-9) * 0.05
    low, high, tall = low - room, high + room, ROW * len(bars) + 66

    def x(value: float) -> float:
        return MARGIN + (WIDE - 2 * MARGIN) * (value - low) / (high - low)

    parts = [_tick(x(value), tall - 46, _label(value, shares)) for value in round_ticks(low, high)]
    if zero:
        parts.append(svg_line(x(0), 8, x(0), tall - 56, "axis"))
    for place, bar in enumerate(bars):
        y = ROW * (place + 1) - 14
        if bar.chance is not None:
            box = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="16" class="chance"/>')
            parts.append(box.format(x(-bar.chance), y - 8, x(bar.chance) - x(-bar.chance)))
        parts.append(svg_text(_short(bar.name), MARGIN, y - 16, "start"))
        if (limits := bar.value.limits) is not None:
            parts.append(svg_line(x(limits[0]), y, x(limits[1]), y, "reach"))
        dot = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="5" class="value"><title>{}</title></circle>')
        parts.append(dot.format(x(bar.value.value), y, bar.name))
    parts.append(svg_text(title, WIDE / 2, tall - 4, "middle"))
    return svg_drawing(tall, title, parts)


def power_figure(lines: Sequence[PowerLine], *, shares: bool) -> Markup:
    """Return the smallest difference found by the number of questions, a line for each number of repeats."""
    title = "smallest difference found with 80% power, by questions"
    if not lines:
        return Markup("")
    tall, left = 380.0, 66.0
    sizes = [math.log(line.questions) for line in lines]
    low, wide = min(sizes), max(max(sizes) - min(sizes), 1e-9)
    top = max(line.difference for line in lines)

    def x(questions: int) -> float:
        return left + (WIDE - left - MARGIN) * (math.log(questions) - low) / wide

    def y(value: float) -> float:
        return tall - 50 - (tall - 70) * value / top

    parts, last = list[Markup](), -math.inf
    for n in sorted({line.questions for line in lines}):
        # The record's own size may lie beside a round one; numbers of four digits are this wide.
        if x(n) - last >= 64:
            parts.append(_tick(last := x(n), tall - 40, f"{n:,}"))
    for value in round_ticks(0.0, top):
        parts += [
            svg_line(left, y(value), WIDE - MARGIN, y(value), "grid"),
            svg_text(_label(value, shares), left - 8, y(value) + 4, "end"),
        ]
    for place, repeats in enumerate(sorted({line.repeats for line in lines})):
        own = sorted((line for line in lines if line.repeats == repeats), key=lambda line: line.questions)
        points = " ".join(f"{x(line.questions):.1f},{y(line.difference):.1f}" for line in own)
        curve = Markup('<polyline points="{}" fill="none" stroke="{}" stroke-width="2.5"/>')
        parts.append(curve.format(points, colour(place)))
    parts.append(svg_text("questions (logarithmic)", (left + WIDE - MARGIN) / 2, tall - 4, "middle"))
    return svg_drawing(tall, title, parts)


def _label(value: float, shares: bool) -> str:
    return f"{100 * value:.4g}" + ("%" if value else "") if shares else f"{value:.3g}"


def _short(name: str) -> str:
    # Some 11 units a letter on a telephone; what tells files apart is mostly at their end.
    return name if len(name) <= 50 else f"…{name[-49:]}"


def _tick(x: float, y: float, text: str) -> Markup:
    return svg_line(x, y - 10, x, y - 4, "axis") + svg_text(text, x, y + 12, "middle")


# Title, headers and rows.
Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]


@frozen
class Sheet:
    """One page: its question, the answer, numbers beside their names, a picture with its legend, tables."""

    title: str
    about: str
    answer: str
    tiles: Sequence[tuple[str, str]]
    figure: Markup
    caption: str
    tables: Sequence[Table]
    warnings: Sequence[Note]
    legend: Sequence[tuple[str, str]] = ()


def write_noise_page(found: Sequence[tuple[str, Noise]], file: Path) -> None:
    """Write the page of one or several scores; raises UsageError when it cannot be written."""
    _write([_noise_sheet(path, noise) for path, noise in found], file)


def write_comparison_page(pairs: Sequence[Better], warnings: Sequence[Note], file: Path) -> None:
    """Write the page of a comparison; raises UsageError when it cannot be written."""
    first = pairs[0]
    alone = len({pair.first for pair in pairs}) == 1
    sheet = Sheet(
        title="Is it better?",
        about=f"{len(pairs)} comparison{'s' * (len(pairs) > 1)} on shared questions",
        answer=".\n".join(pair.line() for pair in pairs[:3]),
        tiles=[],
        figure=forest(
            [
                Bar(pair.names[1] if alone else pair.versus, pair.difference, _by_chance(pair))
                for pair in pairs
            ],
            "difference" if alone else "difference, second minus first",
            shares=first.scale == (0.0, 1.0),
            zero=True,
        ),
        caption=f"Each minus {first.names[0]}. "
        * alone
        + "Lines are 95% intervals over questions like these. Grey is what repeats alone give on these "
        "very questions, in 19 of 20 comparisons of a model with itself.",
        tables=[_deciding(pairs)],
        warnings=warnings,
    )
    _write([sheet], file)


def _by_chance(pair: Better) -> float | None:
    return None if pair.noise is None else 1.96 * pair.noise


def _deciding(pairs: Sequence[Better]) -> Table:
    headers = (
        "second / first",
        "shared questions",
        "difference",
        "p" + (", Holm" if len(pairs) > 1 else ""),
        "two runs of one model differ as much",
        "questions that would find it",
        "repeats that would find it",
        "",
    )
    rows = [
        (
            pair.versus,
            f"{pair.shared_questions:,}",
            pair.said(pair.difference.value),
            p_text(pair.p_adjusted).removeprefix("= "),
            pair.chance,
            "–" if pair.questions_needed is None else f"{pair.questions_needed:,}",
            "–" if pair.repeats_needed is None else f"{pair.repeats_needed:,}",
            pair.verdict,
        )
        for pair in pairs
    ]
    return "What would decide it", headers, rows


def write_audit_page(found: Audit, file: Path) -> None:
    """Write the page of an audit; raises UsageError when it cannot be written."""
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
    headers = ("id", "question", "P(gold is wrong)", "gold answer", "agreed", "share", "equal as")
    # A log without texts, or without unequal forms, has nothing to say there.
    told = [place for place in range(len(headers)) if any(row[place] for row in rows)]
    sheet = Sheet(
        title="Which gold answers may be wrong?",
        about=f"{found.n:,} questions, {len(found.branches)} branch{'es' * (len(found.branches) > 1)}",
        answer=found.line(),
        tiles=[("no path of any branch is right", f"{found.never_right:.1%}")],
        figure=forest(bars, "share of questions", shares=True, zero=False),
        caption="Lines are 95% intervals over questions like these.",
        tables=[("Worth a look", [headers[i] for i in told], [tuple(row[i] for i in told) for row in rows])],
        warnings=found.warnings,
    )
    _write([sheet], file)


def _noise_sheet(path: str, found: Noise) -> Sheet:
    head, *rows = found.rows()
    repeats = sorted({line.repeats for line in found.power})
    names = [f"{r} repeat{'s' * (r > 1)}" for r in repeats]
    lines = {(line.questions, line.repeats): line for line in found.power}
    power = [
        (
            f"{n:,}",
            *(_found(found, lines[n, r]) for r in repeats),
        )
        for n in sorted({line.questions for line in found.power})
    ]
    return Sheet(
        title="How far to trust this score",
        about=f"{path}: {found.n:,} questions, {found.k} repeats",
        answer=found.sentence(),
        tiles=[
            ("score, for questions like these", found.said(found.score)),
            ("one run is off by (standard deviation)", found.said(found.run_to_run_sd, points=True)),
        ],
        figure=power_figure(found.power, shares=found.shares),
        caption="The smallest difference of two models that is found with 80% power at 5%, on new questions "
        "that both answer: by the number of questions, one line for each number of repeats.",
        tables=[
            ("The score and its noise", head, rows),
            (
                "Smallest difference found: new questions (these questions)",
                ("questions", *names),
                power,
            ),
        ],
        warnings=found.warnings,
        legend=[(colour(place), name) for place, name in enumerate(names)],
    )


def _found(noise: Noise, line: PowerLine) -> str:
    return f"{noise.said(line.difference)} ({noise.said(line.these_questions)})"


def _write(sheets: Sequence[Sheet], file: Path) -> None:
    try:
        write_text(file, filled("evals.html.j2", sheets=sheets))
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from None
