"""How the pages are filled in: one template language, everything escaped, nothing missing."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"

Filters = Mapping[str, Callable[..., str]]


def filled(name: str, filters: Filters | None = None, **values: object) -> str:
    """Return a page as text: the template ``name`` with ``values``, the style of all pages and the version.

    Texts are escaped unless they are ``Markup``. Raises UndefinedError for a value that is missing.
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
    return environment.get_template(name).render(style=style, version=version("keff"), **values)
