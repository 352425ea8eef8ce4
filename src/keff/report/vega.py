"""Rendering of Vega-Lite specifications as PDF and SVG, reproducible to the byte.

As a program (``python -m keff.report.vega``) it reads ``{"name": specification}`` in JSON and prints
``{"name": SVG}``.
"""
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import vl_convert

from keff.console import harmless
from keff.files import draft_of
from keff.narrow import fields, is_array, items
from keff.records import plain

Specs = Mapping[str, Mapping[str, Any]]
Draw = Callable[[Specs], Mapping[str, str]]
SaveAll = Callable[[Mapping[Path, Mapping[str, Any]]], list[Path]]


@contextmanager
def draw_beside() -> Generator[Draw]:
    """Start a renderer process; returns a function from specifications to SVG, for one use.

    The converter's engine takes a second to start, in which others compute; it keeps some 80 MB, which would
    come on top of what the caller holds.
    """
    line, kind = [sys.executable, "-m", __name__], subprocess.PIPE
    # In a session of its own: who interrupts the caller sees one end, for without figures it ends in silence.
    with subprocess.Popen(
        line, stdin=kind, stdout=kind, text=True, encoding="utf-8", start_new_session=True
    ) as process:

        def ask(specs: Specs) -> Mapping[str, str]:
            printed, _ = process.communicate(_json(specs))
            if process.returncode:
                raise subprocess.CalledProcessError(process.returncode, line)
            return json.loads(printed)

        try:
            yield ask
        finally:
            process.kill()  # of one that was asked, nothing is left


@contextmanager
def converter() -> Generator[SaveAll]:
    """Start a renderer process; returns a function that writes figures, for one use."""
    with draw_beside() as ask:

        def save_all(specs: Mapping[Path, Mapping[str, Any]]) -> list[Path]:
            drawn = ask({str(stem): spec for stem, spec in specs.items()})
            return [file for stem, svg in drawn.items() for file in _write_svg(svg, Path(stem))]

        yield save_all


def draw(specs: Specs) -> dict[str, str]:
    """Return specifications rendered as SVG, by name."""
    return {name: svg_of(spec) for name, spec in specs.items()}


def save(spec: Mapping[str, Any], stem: Path) -> list[Path]:
    """Write ``stem.pdf`` and ``stem.svg``; returns their paths."""
    return _write_svg(svg_of(spec), stem)


def _write_svg(svg: str, stem: Path) -> list[Path]:
    stem.parent.mkdir(parents=True, exist_ok=True)
    kinds = {"pdf": _in_order(vl_convert.svg_to_pdf(svg)), "svg": svg.encode("utf-8")}
    files = {stem.with_name(f"{stem.name}.{kind}"): content for kind, content in kinds.items()}
    for file, content in files.items():
        with draft_of(file) as draft:
            draft.write_bytes(content)
    return list(files)


def svg_of(spec: Mapping[str, Any]) -> str:
    """Return a figure as SVG."""
    return _renumber_ids(vl_convert.vegalite_to_svg(_json(spec)))


def _json(value: Mapping[str, Any]) -> str:
    # What is not finite becomes null, which Vega leaves out.
    return json.dumps(_without_control_characters(plain(value)), allow_nan=False)


def _without_control_characters(value: object) -> object:
    """Return a specification with the words of others as they may be shown; a control character ends Vega."""
    if isinstance(value, str):
        return harmless(value)
    if isinstance(value, dict):
        return {
            name: _without_control_characters(each) for name, each in fields(cast("object", value)).items()
        }
    return [_without_control_characters(each) for each in items(value)] if is_array(value) else value


def _renumber_ids(svg: str) -> str:
    """Return SVG with ids of gradients and clips numbered from 0 in each figure."""
    ids = {
        name: f"mark{place}" for place, name in enumerate(dict.fromkeys(re.findall(r' id="([^"]+)"', svg)))
    }
    return re.sub(r'( id="|url\(#)([^")]+)', lambda found: found[1] + ids.get(found[2], found[2]), svg)


def _in_order(pdf: bytes) -> bytes:
    """Return PDF with sorted resource dictionaries, since the converter's order is random.

    No byte is added or taken away, so the offsets of objects still hold.
    """

    def sort(found: re.Match[bytes]) -> bytes:
        return found[1] + b"".join(sorted(found[2].splitlines(keepends=True)))

    return re.sub(rb"(/\w+ <<\n)((?:[ ]+/\w+ \d+ 0 R\n)+)", sort, pdf)


if __name__ == "__main__":
    # The engine starts with the first figure that it is asked for.
    vl_convert.vegalite_to_svg({"mark": "point", "data": {"values": []}})
    if asked := sys.stdin.read():
        sys.stdout.write(json.dumps(draw(json.loads(asked))))
