"""Write the pictures of the documentation from one record: ``python scripts/write_pictures.py RECORD``.

RECORD is a recorded log. README.md and the documentation show the top of its page, light and dark (with
Chromium), and what a terminal shows in the first minute, as an SVG that plays once.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from base64 import b64encode
from collections.abc import Iterable
from io import StringIO
from itertools import accumulate
from pathlib import Path

from rich.console import Console
from rich.text import Text

import keff
from keff.analysis.terms import Terms

ASSETS = Path(__file__).resolve().parents[1] / "docs" / "assets"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
SETTINGS = keff.Settings(terms=Terms(now="8"))
WIDTH, TITLE = 1120, "MATH-500 · NVIDIA-Nemotron-Nano-9B-v2 · 500 questions × 80 paths"

MINUTE = (
    "keff analyze answers.jsonl --now 8",
    "keff replay answers.jsonl fixed:8 lead_k:2,cap=8 --now 8",
)
# Of the text chunk of a PNG, neither compressed nor in a language.
KEYWORD = b"Description\0\0\0\0\0"
# Every word that stands above the picture's end.
SHOWN = """height => [...document.querySelectorAll("h1, h2, p, li, .pair *")]
    .filter(e => !e.children.length && e.checkVisibility() && e.getBoundingClientRect().bottom <= height)
    .map(e => e.textContent.trim()).filter(Boolean).join("\\n")"""
# The share of pixels of which a colour differs by over a quarter of its range; all, where sizes differ.
DIFFERENT = """async both => {
    const [one, other] = await Promise.all(both.map(async png => {
        const file = await fetch(`data:image/png;base64,${png}`);
        const image = await createImageBitmap(await file.blob());
        const pen = new OffscreenCanvas(image.width, image.height).getContext("2d");
        pen.drawImage(image, 0, 0);
        return pen.getImageData(0, 0, image.width, image.height);
    }));
    if (one.width !== other.width || one.height !== other.height) return 1;
    const differs = new Set();
    one.data.forEach((colour, at) => Math.abs(colour - other.data[at]) > 64 && differs.add(at >> 2));
    return differs.size / (one.width * one.height);
}"""
COLUMNS = 80
# Seconds between two commands, to read by.
PAUSE = 4.0
FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
LINE = re.compile(r'(<text [^>]*clip-path="url\(#\w+-line-(\d+)\)")')
PLAYED = """
    text { animation: shown .01s both }
    @keyframes shown { from { opacity: 0 } }
    @media (prefers-reduced-motion: reduce), print { text { animation: none } }
    </style>"""


def minute(record: Path) -> list[tuple[str, float]]:
    """Return what each command of the first minute shows, and the processor seconds that it took.

    On an idle machine those are the seconds that one waits, and other work beside does not change them.
    """
    shown: list[tuple[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(record, Path(folder) / "answers.jsonl")
        environment = os.environ | {"COLUMNS": str(COLUMNS), "NO_COLOR": "1"}
        for command in MINUTE:
            program, *arguments = command.split()
            begun = spent()
            done = subprocess.run(
                [Path(sys.executable).with_name(program), *arguments],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            shown.append((done.stdout, spent() - begun))
    return shown


def spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def recording(shown: list[tuple[str, float]]) -> str:
    """Return the terminal as an SVG, in which each output appears after the seconds that it took."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    lines = list[float]()
    ends = accumulate(seconds + PAUSE for _, seconds in shown)
    for command, (output, seconds), end in zip(MINUTE, shown, ends, strict=True):
        typed, answered = end - PAUSE - seconds, end - PAUSE
        console.print(Text(f"$ {command}", "bold green"))
        console.print(Text(output))
        lines += [typed, *[answered] * (output.count("\n") + 1)]
    svg = FONTS.sub("", console.export_svg(title="the first minute", unique_id="minute"))
    svg = LINE.sub(lambda found: f'{found[1]} style="animation-delay:{lines[int(found[2])]:.1f}s"', svg)
    return svg.replace("</style>", PLAYED.lstrip("\n"), 1)


def shots(record: Path, themes: tuple[str, ...] = ("light", "dark")) -> dict[str, bytes]:
    """Return the top of the record's page by theme, as a PNG that holds in words what it shows."""
    # Not needed by who only wants the recording.
    from playwright.sync_api import sync_playwright

    drawn: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = keff.write_report(record, Path(folder) / "report.html", SETTINGS)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for theme in themes:
            size = {"width": WIDTH, "height": 900}
            page = browser.new_context(viewport=size, color_scheme=theme).new_page()  # type: ignore[arg-type]
            page.goto(page_file.as_uri())
            page.wait_for_selector("html[data-ready=yes]")
            page.eval_on_selector(".about", f"e => e.textContent = {TITLE!r}")
            end = page.locator(".hero").bounding_box()
            assert end is not None
            height = int(end["y"] + end["height"] + 24)
            page.set_viewport_size({"width": WIDTH, "height": height})
            drawn[theme] = described(page.screenshot(), page.evaluate(SHOWN, height))
        browser.close()
    return drawn


def differences(pairs: Iterable[tuple[bytes, bytes]]) -> list[float]:
    """Return by which share of their pixels the two pictures of each pair differ."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page()
        found = [page.evaluate(DIFFERENT, [b64encode(png).decode() for png in pair]) for pair in pairs]
        browser.close()
    return found


def described(png: bytes, text: str) -> bytes:
    """Return a PNG with a text in it, before the chunk that ends it (12 bytes)."""
    body = b"iTXt" + KEYWORD + text.encode()
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return png[:-12] + chunk + png[-12:]


def description(png: bytes) -> str:
    """Return the text that ``described`` wrote."""
    return png.partition(b"iTXt" + KEYWORD)[2][:-16].decode()


def main(record: Path) -> None:
    """Write first-minute.svg, report-light.png and report-dark.png."""
    (ASSETS / "first-minute.svg").write_text(recording(minute(record)), "utf-8")
    for theme, png in shots(record).items():
        (ASSETS / f"report-{theme}.png").write_bytes(png)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
