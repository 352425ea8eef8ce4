"""Write the account that publishes keff into every address: ``python scripts/set_owner.py NAME``.

Every tracked file that names the account of pyproject.toml in an address is changed, and printed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
FORMS = ("{}/keff", "{}.github.io", "* @{}")


def set_owner(name: str, repo: Path = REPO) -> Iterator[str]:
    """Write an account in place of the one that the metadata name; yield the files that had it."""
    known = re.search(r"github\.com/([\w-]+)/keff", (repo / "pyproject.toml").read_text("utf-8"))
    assert known is not None
    old = "|".join(re.escape(form.format(known[1])) for form in FORMS)
    found = subprocess.run(
        ["git", "grep", "-lIE", old, "--", ".", ":!tests"],
        cwd=repo,
        capture_output=True,
        text=True,
        check=True,
    )
    for file in found.stdout.splitlines():
        text = (repo / file).read_text("utf-8")
        for form in FORMS:
            text = text.replace(form.format(known[1]), form.format(name))
        (repo / file).write_text(text, "utf-8")
        yield file


if __name__ == "__main__":
    if len(sys.argv) != 2 or not re.fullmatch(r"[A-Za-z0-9-]+", sys.argv[1]):
        raise SystemExit(__doc__)
    print(*set_owner(sys.argv[1]), sep="\n")
