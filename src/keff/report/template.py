"""HTML templates: one autoescaped template language, and charts from their data."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from keff.console import harmless
from keff.report import vega
from keff.report.series import Datasets

TEMPLATES = Path(__file__).parent / "templates"

# The palette of the other figures, which colour-blind readers can tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#b8860b", "#7f7f7f")

# Units of a drawing, of which its type has 12: for a whole column, for a telephone, and for half a column.
WIDTHS = {"wide": 880, "narrow": 400, "half": 400}
# Charts that stand side by side, so that they never have a whole column.
HALVES = ("worth", "difficulty")

# Attributes of a drawing that a page has no use for, and those that a group hands down to its marks.
UNUSED = re.compile("aria-|role|class|pointer-events|font-family|stroke-miterlimit")
LOOKS = re.compile("fill|stroke|font|text-anchor")
# Coordinates finer than a tenth of a unit, which nobody can see.
LONG = re.compile(r"\d+\.\d\d+")

Filters = Mapping[str, Callable[..., str]]


def render(name: str, filters: Filters | None = None, **values: object) -> str:
    """Return the page of template ``name`` with ``values``, common style and version.

    Texts are escaped unless they are ``Markup``, and lose their control characters. Raises UndefinedError for
    a value that is missing.
    """
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= dict(filters or {})
    style = Markup((TEMPLATES / "page.css").read_text("utf-8"))
    return harmless(environment.get_template(name).render(style=style, version=version("keff"), **values))


def colour(place: int) -> str:
    """Return the colour of the i-th line of a chart."""
    return COLOURS[place % len(COLOURS)]


def drawings(
    charts: Mapping[str, Mapping[str, Datasets]], draw: vega.Draw = vega.draw, *, titles: bool = False
) -> dict[tuple[str, str], Markup]:
    """Return SVG drawings of charts, by run and name.

    A chart that may have a whole column is drawn in two widths, of which the style shows the one that fits.
    What marks stand for is in their ``data-tip``, or in ``titles`` of their own for a page without scripts.
    """
    wanted = {
        (run, name): {
            kind: f"{run}-{name}-{kind}" for kind in (("half",) if name in HALVES else ("wide", "narrow"))
        }
        for run, named in charts.items()
        for name in named
    }
    specs = {
        key: _specs()[name] | {"width": WIDTHS[kind], "datasets": charts[run][name]}
        for (run, name), keys in wanted.items()
        for kind, key in keys.items()
    }
    drawn = draw(specs)
    return {
        place: Markup("").join(_slim(drawn[key], key, kind, titles=titles) for kind, key in keys.items())
        for place, keys in wanted.items()
    }


@cache
def _specs() -> dict[str, dict[str, Any]]:
    return json.loads((TEMPLATES / "charts.json").read_text("utf-8"))


def _slim(svg: str, name: str, kind: str, *, titles: bool) -> Markup:
    """Return an SVG without what a page does not need, half of its size.

    Ids begin with ``name``, for a page has many drawings. The drawing is hidden from screen readers: the
    sentence on its element says what is to be seen.
    """
    root = Xml.fromstring(svg.replace(' xmlns="http://www.w3.org/2000/svg"', "", 1))
    _prune(root)
    for mark in list(root.iter()) if titles else ():
        if said := mark.attrib.pop("data-tip", ""):
            Xml.SubElement(mark, "title").text = said
    box = root.attrib["viewBox"]
    root.attrib.clear()
    root.attrib |= {"class": kind, "viewBox": box, "aria-hidden": "true"}
    text = re.sub(r'( id="|url\(#)', rf"\g<1>{name}-", Xml.tostring(root, "unicode"))
    return Markup(text.replace(" />", "/>"))


def _prune(element: Xml.Element) -> None:
    """Keep only attributes of style and position."""
    for child in list(element):
        if child.get("class") not in ("background", "foreground"):
            _prune(child)
            if child.tag != "g" or len(child):
                continue
        element.remove(child)
    said, kind = element.get("aria-label"), element.get("class", "")
    for name, value in list(element.items()):
        del element.attrib[name]
        if UNUSED.match(name) is None:
            element.set(name, LONG.sub(lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), value))
    if element.tag != "g":
        element.attrib |= {"data-tip": said} if said else {}
        return
    if "role-mark" in kind:
        element.set("class", kind.split()[0])
    _share(element)
    for place, child in reversed(list(enumerate(element))):
        if child.tag == "g" and not child.attrib:
            element[place : place + 1] = list(child)


def _share(group: Xml.Element) -> None:
    """Move the style that all children of a group share to the group."""
    for name, value in list(group[0].items()) if len(group) else ():
        if LOOKS.match(name) and all(child.get(name) == value for child in group):
            group.set(name, value)
            for child in group:
                del child.attrib[name]
