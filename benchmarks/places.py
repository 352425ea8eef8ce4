"""Where the project lies, and the records that its tests, fits and benchmarks read.

They are the extract in ``tests/data``, or a folder of larger records where ``KEFF_SHARED`` names one.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RIGS = ROOT / "tests" / "rigs"
"""Servers and records that tests use, which some benchmarks share."""


def unpacked(packed: Path, folder: Path) -> None:
    """Unpack every ``.gz`` of a folder into another, where it is missing there or older."""
    files = sorted(packed.glob("*.gz"))
    if not files:
        raise FileNotFoundError(f"{packed}: the records are missing; they are part of the repository")
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        plain = folder / file.stem
        if not plain.exists() or plain.stat().st_mtime < file.stat().st_mtime:
            # Several processes may unpack at once: each file appears whole.
            part = plain.with_suffix(f".{os.getpid()}")
            part.write_bytes(gzip.decompress(file.read_bytes()))
            part.replace(plain)


def records_folder() -> Path:
    """Return the folder that holds ``recorded`` and ``benchmarks``."""
    if named := os.environ.get("KEFF_SHARED"):
        return Path(named) / "data"
    data = ROOT / "tests" / "data"
    for part in ("recorded", "benchmarks"):
        unpacked(data / part, data / "unpacked" / part)
    return data / "unpacked"


RECORDED = records_folder() / "recorded"
QUESTIONS = records_folder() / "benchmarks"
MORE = records_folder() / "more"
"""Further families, which only a folder of larger records holds."""
