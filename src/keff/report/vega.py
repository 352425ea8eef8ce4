"""Vega-Lite specifications as vector PDF and SVG: the same bytes on every run.

As a program (``python -m keff.report.vega KIND...``) it reads ``{"stem": specification}`` in JSON and writes
files of these kinds.
"""
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import vl_convert

from keff.files import whole

KINDS = ("pdf", "svg")

SaveAll = Callable[[Mapping[Path, Mapping[str, Any]]], list[Path]]


@contextmanager
def converter(kinds: Sequence[str] = KINDS) -> Generator[SaveAll]:
    """Start the process that draws, and give what writes figures by their stems there, once.

    The converter's engine takes a second to start, in which others compute; it keeps some 80 MB, which would
    come on top of what the caller holds.
    """
    line, kind = [sys.executable, "-m", __name__, *kinds], subprocess.PIPE
    # In a session of its own: who interrupts the caller sees one end, for without figures it ends in silence.
    with subprocess.Popen(line, stdin=kind, text=True, encoding="utf-8", start_new_session=True) as process:

        def save_all(specs: Mapping[Path, Mapping[str, Any]]) -> list[Path]:
            told = json.dumps({str(stem): spec for stem, spec in specs.items()}, allow_nan=False)
            process.communicate(told)
            if process.returncode:
                raise subprocess.CalledProcessError(process.returncode, line)
            return [file for stem in specs for file in files_of(stem, kinds)]

        yield save_all


def files_of(stem: Path, kinds: Sequence[str] = KINDS) -> list[Path]:
    """Return the files of a figure."""
    return [stem.with_name(f"{stem.name}.{kind}") for kind in kinds]


def save(spec: Mapping[str, Any], stem: Path, kinds: Sequence[str] = KINDS) -> list[Path]:
    """Write ``stem.pdf`` and ``stem.svg``, or one of them; returns the files."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    svg = svg_of(spec)
    written = {"pdf": lambda: _in_order(vl_convert.svg_to_pdf(svg)), "svg": lambda: svg.encode("utf-8")}
    files = files_of(stem, kinds)
    for file, kind in zip(files, kinds, strict=True):
        with whole(file) as draft:
            draft.write_bytes(written[kind]())
    return files


def svg_of(spec: Mapping[str, Any]) -> str:
    """Return a figure as SVG."""
    return _renumbered(vl_convert.vegalite_to_svg(dict(spec)))


def _renumbered(svg: str) -> str:
    """Number the ids of gradients and clips from 0: the converter counts them on from figure to figure."""
    ids = {
        name: f"mark{place}" for place, name in enumerate(dict.fromkeys(re.findall(r' id="([^"]+)"', svg)))
    }
    return re.sub(r'( id="|url\(#)([^")]+)', lambda found: found[1] + ids.get(found[2], found[2]), svg)


def _in_order(pdf: bytes) -> bytes:
    """Sort the entries of resource dictionaries, which the converter writes in the order of a hash table.

    No byte is added or taken away, so the offsets of objects still hold.
    """

    def sort(found: re.Match[bytes]) -> bytes:
        return found[1] + b"".join(sorted(found[2].splitlines(keepends=True)))

    return re.sub(rb"(/\w+ <<\n)((?:[ ]+/\w+ \d+ 0 R\n)+)", sort, pdf)


if __name__ == "__main__":
    # The engine starts with the first figure that it is asked for.
    vl_convert.vegalite_to_svg({"mark": "point", "data": {"values": []}})
    for name, drawn in json.loads(sys.stdin.read() or "{}").items():
        save(drawn, Path(name), sys.argv[1:])
