"""The report page of 500 questions x 80 paths, and how quickly the command line starts.

The page should be built in under 5 s and opened in under 2 s; ``import keff`` should take under 0.3 s and ``keff
--help`` under 0.6 s. The bare interpreter beside them shows how busy the machine is.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from keff.analysis import Settings, analyze
from keff.reader import Opening, open_record
from keff.report.page import write_page

QUESTIONS, PATHS = 500, 80
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-sync",
]


def log(folder: Path) -> Path:
    """Write a record of that size."""
    rng = np.random.default_rng(0)
    file = folder / "log.jsonl"
    with file.open("w") as out:
        for number in range(QUESTIONS):
            right = rng.random(PATHS) < rng.beta(2, 0.5)
            answers = np.where(right, "12", rng.integers(0, 9, PATHS).astype(str)).tolist()
            out.write(json.dumps({"id": f"q{number}", "gold_answer": "12", "all_answers": answers}) + "\n")
    return file


def seconds(command: list[str], turns: int = 5) -> float:
    """Return the least time of some runs of a command."""
    times: list[float] = []
    for _ in range(turns):
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - started)
    return min(times)


def opened(page: Path) -> float | None:
    """Return how long a headless browser takes until the last chart is drawn, or None without one."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return None
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        tab = browser.new_page()
        started = time.perf_counter()
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-drawn=yes]", timeout=60_000)
        taken = time.perf_counter() - started
        browser.close()
    return taken


def main() -> None:
    """Print the times beside their targets."""
    bare = seconds([sys.executable, "-c", "pass"])
    rows: list[tuple[str, float | None, float]] = [
        ("import keff", seconds([sys.executable, "-c", "import keff"]) - bare, 0.3),
        ("keff --help", seconds([sys.executable, "-m", "keff", "--help"]), 0.6),
    ]
    with tempfile.TemporaryDirectory() as name:
        file, page = log(Path(name)), Path(name) / "page.html"
        started = time.perf_counter()
        record = open_record(file, Opening(texts=True))
        found = analyze(record, Settings())
        rows.append((f"analyze {QUESTIONS} x {PATHS}", time.perf_counter() - started, 1.0))
        started = time.perf_counter()
        write_page([(record, found)], page)
        rows.append((f"page of {QUESTIONS} x {PATHS} built", time.perf_counter() - started, 5.0))
        rows.append(("page opened, all charts drawn", opened(page), 2.0))
        size = page.stat().st_size / 1e6
    print(f"bare interpreter {bare:.2f} s")
    print(f"{'what':36}{'seconds':>9}{'target':>9}{'ratio':>8}")
    for what, taken, target in rows:
        shown = "no browser" if taken is None else f"{taken:9.2f}{target:9.1f}{taken / target:8.2f}"
        print(f"{what:36}{shown}")
    print(f"{'size of the page, MB':36}{size:9.2f}{1.5:9.1f}{size / 1.5:8.2f}")


if __name__ == "__main__":
    main()
