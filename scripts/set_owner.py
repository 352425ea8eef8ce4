"""Write the account that publishes keff into every address: ``python scripts/set_owner.py NAME``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
FILES = (
    "pyproject.toml",
    "mkdocs.yml",
    "SECURITY.md",
    "docs/forking.md",
    "docs/gate.md",
    "examples/gate.yml",
    ".github/CODEOWNERS",
    ".github/ISSUE_TEMPLATE/config.yml",
)


def set_owner(name: str) -> None:
    """Write an account in place of the one that the metadata name."""
    known = re.search(r"github\.com/([\w-]+)/keff", (REPO / "pyproject.toml").read_text("utf-8"))
    assert known is not None
    for file in (REPO / each for each in FILES):
        text = file.read_text("utf-8")
        for form in ("{}/keff", "{}.github.io", "* @{}"):
            text = text.replace(form.format(known[1]), form.format(name))
        file.write_text(text, "utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not re.fullmatch(r"[A-Za-z0-9-]+", sys.argv[1]):
        raise SystemExit(__doc__)
    set_owner(sys.argv[1])
