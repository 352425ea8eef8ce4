"""Print the changelog entry of a tag, or say why the tag is no release.

    python scripts/release_notes.py v0.4.0

The version stands in ``pyproject.toml`` alone; its entry in CHANGELOG.md has a date.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent


def notes(tag: str, pyproject: str, changelog: str) -> str:
    """Return what the changelog says of a tag; raise ValueError where the tag is no release."""
    project = tomllib.loads(pyproject)["project"]
    version = project["version"]
    if tag != f"v{version}":
        raise ValueError(f"the tag {tag} is not v{version}, the version in pyproject.toml")
    if "/OWNER/" in project["urls"]["Homepage"]:
        raise ValueError("the addresses name no owner: python scripts/set_owner.py NAME")
    entry = re.search(rf"^## {re.escape(version)} \((.+?)\)\n(.*?)(?=^## |\Z)", changelog, re.M | re.S)
    if entry is None:
        raise ValueError(f"CHANGELOG.md has no entry {version}")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", entry[1]):
        raise ValueError(f"the entry {version} of CHANGELOG.md has no date: {entry[1]}")
    return entry[2].strip() + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    try:
        texts = [(REPO / name).read_text("utf-8") for name in ("pyproject.toml", "CHANGELOG.md")]
        print(notes(sys.argv[1], *texts), end="")
    except ValueError as error:
        raise SystemExit(str(error)) from None
