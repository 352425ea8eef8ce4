"""Vega-Lite specifications as vector PDF and SVG: the same bytes on every run.

As a program (``python -m keff.report.vega``) it reads ``{"stem": specification}`` in JSON and writes all, or
prints ``{"stem": SVG}`` (``print``).
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
from keff.records import plain

KINDS = ("pdf", "svg")
PRINT = "print"

Specs = Mapping[str, Mapping[str, Any]]
Draw = Callable[[Specs], Mapping[str, str]]
SaveAll = Callable[[Mapping[Path, Mapping[str, Any]]], list[Path]]


@contextmanager
def _beside(*how: str) -> Generator[Callable[[Specs], str]]:
    """Start the process that draws, and give what hands it specifications, once, and returns what it prints.

    The converter's engine takes a second to start, in which others compute; it keeps some 80 MB, which would
    come on top of what the caller holds.
    """
    line, kind = [sys.executable, "-m", __name__, *how], subprocess.PIPE
    # In a session of its own: who interrupts the caller sees one end, for without figures it ends in silence.
    with subprocess.Popen(
        line, stdin=kind, stdout=kind, text=True, encoding="utf-8", start_new_session=True
    ) as process:

        def ask(specs: Specs) -> str:
            printed, _ = process.communicate(_json(specs))
            if process.returncode:
                raise subprocess.CalledProcessError(process.returncode, line)
            return printed

        yield ask


@contextmanager
def converter() -> Generator[SaveAll]:
    """Start the process that draws, and give what writes figures by their stems there, once."""
    with _beside() as ask:

        def save_all(specs: Mapping[Path, Mapping[str, Any]]) -> list[Path]:
            ask({str(stem): spec for stem, spec in specs.items()})
            return [file for stem in specs for file in files_of(stem)]

        yield save_all


@contextmanager
def draw_beside() -> Generator[Draw]:
    """Start the process that draws, and give what returns specifications by name as SVG, once."""
    with _beside(PRINT) as ask:
        yield lambda specs: json.loads(ask(specs))


def draw(specs: Specs) -> dict[str, str]:
    """Return specifications by name as SVG."""
    return {name: svg_of(spec) for name, spec in specs.items()}


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
    return _renumbered(vl_convert.vegalite_to_svg(_json(spec)))


def _json(value: Mapping[str, Any]) -> str:
    # What is not finite becomes null, which Vega leaves out.
    return json.dumps(plain(value), allow_nan=False)


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
    asked = json.loads(sys.stdin.read() or "{}")
    if PRINT in sys.argv:
        sys.stdout.write(json.dumps(draw(asked)))
    else:
        for name, drawn in asked.items():
            save(drawn, Path(name))
