"""Tables set by LaTeX, where it is installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

# IEEEtran asks for Times; Debian has them in texlive-publishers and texlive-fonts-recommended.
_NEEDED = ("IEEEtran.cls", "booktabs.sty", "ptmr7t.tfm")


def _installed() -> bool:
    if shutil.which("pdflatex") is None or shutil.which("kpsewhich") is None:
        return False
    found = subprocess.run(["kpsewhich", *_NEEDED], capture_output=True, text=True, check=False)
    return len(found.stdout.split()) == len(_NEEDED)


needs_latex = pytest.mark.skipif(not _installed(), reason="no LaTeX with IEEEtran and Times is installed")


def typeset(document: str, tables: Iterable[str], folder: Path) -> None:
    """Set tables in a document class, and fail on an error or a line that is too wide."""
    file = folder / "set.tex"
    body = "\n\\clearpage\n".join(tables)
    file.write_text(
        f"{document}\n\\usepackage{{booktabs}}\n\\begin{{document}}\nx\n{body}\n\\end{{document}}\n"
    )
    call = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", file.name]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
