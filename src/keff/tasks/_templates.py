"""Prompt templates: the paper's (``_templates.toml``), and those of a user's file."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from keff.errors import TaskError
from keff.narrow import items


@cache
def family(name: str) -> tuple[str, ...]:
    """Return a task family's templates, by slot."""
    return read_templates(Path(__file__).with_suffix(".toml"), name)


def read_templates(path: str | Path, name: str = "templates") -> tuple[str, ...]:
    """Return the ``templates`` list of a TOML file; raises TaskError."""
    try:
        content = tomllib.loads(Path(path).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TaskError(f"{path}: not a readable TOML file: {error}") from error
    given = items(content.get(name))
    templates = [each for each in given if isinstance(each, str)]
    if not templates or len(templates) < len(given):
        raise TaskError(f'{path}: expected {name} = ["...", ...] with at least one text')
    return tuple(templates)
