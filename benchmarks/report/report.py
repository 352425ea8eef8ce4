"""The page of 500 questions x 80 recorded paths of a real model, and how fast the command line starts.

The page should be built in under 5 s (the whole command: start, reading, analysis, replay, drawing) and
opened in under 1 s; ``import keff`` should take under 0.3 s and ``keff --help`` under 0.1 s. The bare
interpreter beside them shows how busy the machine is.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.places import RECORDED

RECORD = RECORDED / "boinf_math500_Qwen3-14B.jsonl"
LIMIT_MB = 1.0
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-sync",
]


def seconds(command: list[str], turns: int = 5) -> float:
    """Return the least time of some runs of a command."""
    times: list[float] = []
    for _ in range(turns):
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - started)
    return min(times)


def opened(page: Path) -> float | None:
    """Return how long a browser takes until the page with all its charts and its table is there."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return None
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        tab = browser.new_page()
        started = time.perf_counter()
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-ready=yes]", timeout=60_000)
        taken = time.perf_counter() - started
        browser.close()
    return taken


def main() -> None:
    """Print the times beside their targets."""
    bare = seconds([sys.executable, "-c", "pass"])
    rows: list[tuple[str, float | None, float]] = [
        ("import keff", seconds([sys.executable, "-c", "import keff"]) - bare, 0.3),
        ("keff --help", seconds([sys.executable, "-m", "keff", "--help"]), 0.1),
    ]
    size = None
    if RECORD.exists():
        with tempfile.TemporaryDirectory() as name:
            page = Path(name) / "page.html"
            command = [sys.executable, "-m", "keff", "report", str(RECORD), "-o", str(page)]
            rows.append(("keff report of 500 x 80 paths", seconds(command, 3), 5.0))
            rows.append(("page opened, with all charts", opened(page), 1.0))
            size = page.stat().st_size / 1e6
    else:
        print(f"skipped: the page of real answers, for want of {RECORD}")
    print(f"bare interpreter {bare:.2f} s")
    print(f"{'what':36}{'seconds':>9}{'target':>9}{'ratio':>8}")
    for what, taken, target in rows:
        if taken is None:
            print(f"{what:36}no browser: apt-get install chromium")
        else:
            print(f"{what:36}{taken:9.2f}{target:9.1f}{taken / target:8.2f}")
            print(f"claim: {what} | {taken:.2f} s | under {target:g} s")
    if size is not None:
        print(f"{'size of the page, MB':36}{size:9.2f}{LIMIT_MB:9.1f}{size / LIMIT_MB:8.2f}")
        print(f"claim: size of the page of 500 x 80 paths | {size:.2f} MB | under {LIMIT_MB} MB")


if __name__ == "__main__":
    main()
