"""The pages of ``keff noise``, ``keff compare`` and ``keff audit``: one answer, one picture, the tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from keff.analysis.results.comparison import Better, p_text
from keff.analysis.results.scores import Audit, Noise, PowerLine
from keff.errors import UsageError
from keff.files import write_text
from keff.records import Interval, Note
from keff.report.mix_page import colour
from keff.report.template import filled

# Units of the drawing, which is scaled to the page: the margins hold names on the left and numbers on the
# right.
WIDE, LEFT, RIGHT, ROW, TICKS = 900.0, 260.0, 60.0, 46.0, 5


@dataclass(frozen=True, slots=True)
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
    room = max(high - low, 1e-9) * 0.05
    low, high, tall = low - room, high + room, ROW * len(bars) + 60

    def x(value: float) -> float:
        return LEFT + (WIDE - LEFT - RIGHT) * (value - low) / (high - low)

    parts = [_tick(x(value), tall - 40, _label(value, shares)) for value in _ticks(low, high)]
    if zero:
        parts.append(_line(x(0), 8, x(0), tall - 50, "axis"))
    for place, bar in enumerate(bars):
        y = 8 + ROW * (place + 0.5)
        if bar.chance is not None:
            box = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="16" class="chance"/>')
            parts.append(box.format(x(-bar.chance), y - 8, x(bar.chance) - x(-bar.chance)))
        parts.append(_text(_short(bar.name), LEFT - 14, y + 4, "end"))
        if (limits := bar.value.limits) is not None:
            parts.append(_line(x(limits[0]), y, x(limits[1]), y, "reach"))
        dot = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="5" class="value"><title>{}</title></circle>')
        parts.append(dot.format(x(bar.value.value), y, bar.name))
    parts.append(_text(title, (LEFT + WIDE - RIGHT) / 2, tall - 4, "middle"))
    return _svg(tall, title, parts)


def power_figure(lines: Sequence[PowerLine], *, shares: bool) -> Markup:
    """Return the smallest difference found by the number of questions, a line for each number of repeats."""
    title = "smallest difference found with 80% power, by questions"
    if not lines:
        return Markup("")
    tall, left = 380.0, 70.0
    sizes = [math.log(line.questions) for line in lines]
    low, wide = min(sizes), max(max(sizes) - min(sizes), 1e-9)
    top = max(line.difference for line in lines)

    def x(questions: int) -> float:
        return left + (WIDE - left - 140) * (math.log(questions) - low) / wide

    def y(value: float) -> float:
        return tall - 50 - (tall - 70) * value / top

    parts, last = list[Markup](), -math.inf
    for n in sorted({line.questions for line in lines}):
        # The record's own size may lie beside a round one; names of five digits are this wide.
        if x(n) - last >= 45:
            parts.append(_tick(last := x(n), tall - 40, f"{n:,}"))
    for value in _ticks(0.0, top):
        parts += [
            _line(left, y(value), WIDE - 140, y(value), "grid"),
            _text(_label(value, shares), left - 8, y(value) + 4, "end"),
        ]
    for place, repeats in enumerate(sorted({line.repeats for line in lines})):
        own = sorted((line for line in lines if line.repeats == repeats), key=lambda line: line.questions)
        points = " ".join(f"{x(line.questions):.1f},{y(line.difference):.1f}" for line in own)
        curve = Markup('<polyline points="{}" fill="none" stroke="{}" stroke-width="2.5"/>')
        parts.append(curve.format(points, colour(place)))
        row = 30.0 + 22 * place
        key = Markup('<rect x="{:.1f}" y="{:.1f}" width="14" height="4" fill="{}"/>')
        parts.append(key.format(WIDE - 120, row - 7, colour(place)))
        parts.append(_text(f"{repeats} repeat{'s' * (repeats > 1)}", WIDE - 100, row, "start"))
    parts.append(_text("questions (logarithmic)", (left + WIDE - 140) / 2, tall - 4, "middle"))
    return _svg(tall, title, parts)


def _svg(tall: float, title: str, parts: Sequence[Markup]) -> Markup:
    head = Markup('<svg viewBox="0 0 {:g} {:g}" role="img" class="scores"><title>{}</title>')
    return head.format(WIDE, tall, title) + Markup("").join(parts) + Markup("</svg>")


def _ticks(low: float, high: float) -> list[float]:
    """Return some round values between two ends."""
    step = 10 ** math.floor(math.log10((high - low) / TICKS))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (factor * step) <= TICKS)
    return [place * step for place in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _label(value: float, shares: bool) -> str:
    return f"{100 * value:.4g}" + ("%" if value else "") if shares else f"{value:.3g}"


def _short(name: str) -> str:
    # Some 8 units a letter at 13 pixels; what tells files apart is mostly at their end.
    return name if len(name) <= 30 else f"…{name[-29:]}"


def _tick(x: float, y: float, text: str) -> Markup:
    return _line(x, y - 10, x, y - 4, "axis") + _text(text, x, y + 12, "middle")


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    line = Markup('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>')
    return line.format(x1, y1, x2, y2, kind)


def _text(text: str, x: float, y: float, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, text)


# Title, headers and rows.
Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Sheet:
    """One page: its question, the answer, some numbers beside their names, a picture, tables and warnings."""

    title: str
    about: str
    answer: str
    tiles: Sequence[tuple[str, str]]
    figure: Markup
    caption: str
    tables: Sequence[Table]
    warnings: Sequence[Note]


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
        answer="; ".join(pair.line() for pair in pairs[:3]),
        tiles=[
            ("difference", first.said(first.difference.value)),
            ("p-value", p_text(first.p_adjusted).lstrip("= ")),
        ],
        figure=forest(
            [
                Bar(pair.names[1] if alone else pair.versus, pair.difference, _by_chance(pair))
                for pair in pairs
            ],
            f"difference, minus {first.names[0]}" if alone else "difference, second minus first",
            shares=first.scale == (0.0, 1.0),
            zero=True,
        ),
        caption="Lines are 95% intervals over questions like these. Grey is what repeats alone give on these "
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
        Bar("score with the agreed answers", found.score_if_right),
        Bar("ceiling of every vote", found.ceiling),
    ]
    rows = [
        (
            each.id,
            each.question or "",
            each.gold_answer,
            each.agreed,
            f"{each.share:.0%}",
            f"{each.posterior:.2f}",
            each.equal_under or "",
        )
        for each in found.suspects
    ]
    headers = ("id", "question", "gold answer", "agreed", "share", "P(gold is wrong)", "equal as")
    # A log without texts, or without unequal forms, has nothing to say there.
    told = [place for place in range(len(headers)) if any(row[place] for row in rows)]
    sheet = Sheet(
        title="Which gold answers are wrong?",
        about=f"{found.n:,} questions, {len(found.branches)} branch{'es' * (len(found.branches) > 1)}",
        answer=found.line(),
        tiles=[
            ("suspect gold answers", str(len(found.suspects))),
            ("never right", f"{found.never_right:.1%}"),
        ],
        figure=forest(bars, "share of questions", shares=True, zero=False),
        caption="Lines are 95% intervals over questions like these.",
        tables=[("Suspects", [headers[i] for i in told], [tuple(row[i] for i in told) for row in rows])],
        warnings=found.warnings,
    )
    _write([sheet], file)


def _noise_sheet(path: str, found: Noise) -> Sheet:
    head, *rows = found.rows()
    repeats = sorted({line.repeats for line in found.power})
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
        answer=found.line(),
        tiles=[
            ("score", found.said(found.score)),
            ("one run is off by (standard deviation)", found.said(found.run_to_run_sd, points=True)),
            ("two runs differ by chance by up to", found.said(found.gap_of_two_runs, points=True)),
        ],
        figure=power_figure(found.power, shares=found.shares),
        caption="The smallest difference of two models that is found with 80% power at 5%, on new questions "
        "that both answer: by the number of questions, one line for each number of repeats.",
        tables=[
            ("The score and its noise", head, rows),
            (
                "Smallest difference found: new questions (these questions)",
                ("questions", *(f"{r} repeat{'s' * (r > 1)}" for r in repeats)),
                power,
            ),
        ],
        warnings=found.warnings,
    )


def _found(noise: Noise, line: PowerLine) -> str:
    return f"{noise.said(line.difference)} ({noise.said(line.these_questions)})"


def _write(sheets: Sequence[Sheet], file: Path) -> None:
    try:
        write_text(file, filled("evals.html.j2", sheets=sheets))
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from None
