"""Recorded workloads of real models that the demo shows beside its own, from the atlas."""

from __future__ import annotations

from pathlib import Path

from keff.analysis.atlas import CAP, AtlasEntry
from keff.report.atlas import read_atlas

FILE = Path(__file__).with_name("_beside.json")
"""Five lines of docs/atlas, chosen and written by scripts/write_readme.py."""


def beside() -> list[str]:
    """Return what was measured on five recorded workloads, one sentence each."""
    return [_told(entry) for entry in read_atlas(FILE).entries]


def _told(entry: AtlasEntry) -> str:
    all_paths = entry.plurality.get(CAP)
    accuracy = f"one path is right {entry.p.percent()} of the time"
    if all_paths is not None:
        accuracy += f", the vote of {CAP} {all_paths.percent()}"
    rule = f"{entry.model}, {entry.dataset}: {accuracy}"
    if entry.kept is None or entry.mean_paths is None:
        return f"{rule}."
    paths = "1 path" if entry.mean_paths.value == 1 else f"{entry.mean_paths.text('.1f')} paths"
    return f"{rule}; {entry.policy} keeps {entry.kept.percent()} of that with {paths} per question."
