"""The grammar of policies over several branches: ``NAME(spec)/NAME(spec),key=value``."""

from __future__ import annotations

import re

from keff.errors import PolicyError

NAME = re.compile(r"[\w.-]+")
PART = re.compile(r"([\w.-]+)\(([^()]*)\)")


def parts_of(policy: str, value: object) -> list[tuple[str, str]]:
    """Split ``SMALL(lead_k:2,cap=3)/LARGE(fixed:1)`` into its names and what stands in parentheses.

    Raises PolicyError for anything else, and for a duplicate name.
    """
    if not isinstance(value, str) or not value:
        raise PolicyError(f"{policy} needs its branches: {policy}:SMALL(...)/LARGE(...)")
    parts: list[tuple[str, str]] = []
    for text in value.split("/"):
        match = PART.fullmatch(text.strip())
        if match is None:
            raise PolicyError(
                f"{policy}: write {text!r} as NAME(...), with letters, digits, '_', '.' or '-' in NAME"
            )
        parts.append((match[1], match[2]))
    names = [name for name, _ in parts]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise PolicyError(f"{policy}: duplicate branch {repeated}; a question never returns to a branch")
    return parts


def branch_name(text: str) -> str:
    """Return a name of a branch made of any text: what does not fit becomes '-'."""
    return "-".join(NAME.findall(text)) or "branch"
