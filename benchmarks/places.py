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


def unpacked(folder: Path) -> Path:
    """Unpack every ``.gz`` of a folder beside itself, where that is missing or older; return the folder."""
    packed = sorted(folder.glob("*.gz"))
    if not packed:
        raise FileNotFoundError(f"{folder}: the records are missing; they are part of the repository")
    for file in packed:
        plain = file.with_suffix("")
        if not plain.exists() or plain.stat().st_mtime < file.stat().st_mtime:
            # Several processes may unpack at once: each file appears whole.
            part = plain.with_suffix(f".{os.getpid()}")
            part.write_bytes(gzip.decompress(file.read_bytes()))
            part.replace(plain)
    return folder


def records_folder() -> Path:
    """Return the folder that holds ``recorded`` and ``benchmarks``."""
    if named := os.environ.get("KEFF_SHARED"):
        return Path(named) / "data"
    data = ROOT / "tests" / "data"
    unpacked(data / "recorded")
    unpacked(data / "benchmarks")
    return data


RECORDED = records_folder() / "recorded"
QUESTIONS = records_folder() / "benchmarks"
