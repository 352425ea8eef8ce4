"""Figures of scores as SVG text: intervals in rows, and power by the number of questions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from keff.analysis.results.noise import PowerLine
from keff.records import Interval
from keff.report.mix_page import colour

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
