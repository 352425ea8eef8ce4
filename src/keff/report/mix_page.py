"""The page of ``keff mix``: the frontier, what each branch adds, and where questions go on."""
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from keff import files
from keff.analysis.mix.findings import MixFindings
from keff.records import Interval
from keff.report.frontier import colour, frontier_figure

TEMPLATES = Path(__file__).parent / "templates"


def write_mix_page(mix: MixFindings, file: Path) -> None:
    """Write the page: one HTML file without scripts; raises OSError when it cannot be written."""
    files.write_text(file, render(mix))


def render(mix: MixFindings) -> str:
    """Return the page as text; what comes from a record is escaped."""
    loader = FileSystemLoader(TEMPLATES)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"share": _share, "points": _points, "ratio": _ratio, "number": _number}
    return environment.get_template("mix.html.j2").render(
        mix=mix,
        figure=frontier_figure(mix),
        colours=[colour(place) for place in range(len(mix.branches))],
        style=Markup((TEMPLATES / "page.css").read_text("utf-8")),
        version=version("keff"),
    )


def _share(value: Interval | float | None) -> str:
    if isinstance(value, Interval):
        limits = "" if value.lo is None or value.hi is None else f" [{value.lo:.1%}, {value.hi:.1%}]"
        return f"{_share(value.value)}{limits}"
    return "–" if value is None or value != value else f"{value:.1%}"


def _points(value: Interval | float | None) -> str:
    if isinstance(value, Interval):
        limits = ""
        if value.lo is not None and value.hi is not None:
            limits = f" [{100 * value.lo:+.1f}, {100 * value.hi:+.1f}]"
        return f"{_points(value.value)}{limits}"
    return "–" if value is None or value != value else f"{100 * value:+.1f}"


def _ratio(value: Interval) -> str:
    if value.value != value.value:
        return "–"
    limits = "" if value.lo is None or value.hi is None else f" [{value.lo:.2f}, {value.hi:.2f}]"
    return f"{value.value:.2f}{limits}"


def _number(value: float) -> str:
    return f"{value:.4g}"
