"""Write the pictures of the report page: ``python scripts/write_pictures.py RECORD``, with Chromium.

RECORD is a recorded log; README.md and the documentation show the top of its page, light and dark.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import keff
from keff.analysis.terms import Terms

ASSETS = Path(__file__).resolve().parents[1] / "docs" / "assets"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
SETTINGS = keff.Settings(terms=Terms(now="8"))
WIDTH, TITLE = 1120, "GPQA Diamond · Phi-4-reasoning · 198 questions × 160 paths"


def main(record: Path) -> None:
    """Write report-light.png and report-dark.png."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = keff.write_report(record, Path(folder) / "report.html", SETTINGS)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for theme in ("light", "dark"):
            size = {"width": WIDTH, "height": 900}
            page = browser.new_context(viewport=size, color_scheme=theme).new_page()  # type: ignore[arg-type]
            page.goto(page_file.as_uri())
            page.wait_for_selector("html[data-drawn=yes]")
            page.eval_on_selector(".about", f"e => e.textContent = {TITLE!r}")
            end = page.locator("[data-chart=gain]").bounding_box()
            assert end is not None
            height = end["y"] + end["height"] + 8
            page.set_viewport_size({"width": WIDTH, "height": int(height)})
            page.screenshot(path=ASSETS / f"report-{theme}.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
