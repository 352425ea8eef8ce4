"""One self-contained HTML page that shows runs: what to do, why, what it rests on, and every question."""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from keff.analysis.combine import slot_table
from keff.reading.open import Record
from keff.report import series
from keff.report.headline import arms_sentence, headline
from keff.report.items import Limits, embed, items_payload
from keff.report.series import part
from keff.report.specs import specs

Found = Mapping[str, Any]
TEMPLATES = Path(__file__).parent / "templates"
SNIPPET = "window.vegaEmbed=vegaEmbed;"
VOTES_LIMIT, TEXTS_LIMIT = 280_000, 160_000
"""Bytes of vote splits and of raw texts in the whole page."""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One run as the page shows it: its record, its estimates, and its replay (None: not replayed)."""

    record: Record
    estimates: Found
    replayed: Found | None = None


def write_page(
    runs: Sequence[tuple[Record, Found]],
    file: Path,
    *,
    replays: Sequence[Found | None] = (),
    comparison: Found | None = None,
    bundle: Callable[[], str] | None = None,
) -> None:
    """Write the report page of some runs: one HTML file that asks nothing of the network.

    ``runs`` are records (opened with ``Opening(texts=True)`` to show raw paths) with their ``analyze``
    objects; ``replays`` the ``replay`` object of each run where there is one; ``comparison`` the ``compare``
    object of two arms; ``bundle`` gives the script of ``make_bundle``. Vote splits and texts are embedded up
    to a size limit, beyond it a stable sample. Raises ValueError without runs, OSError when the file cannot
    be written.
    """
    if not runs:
        raise ValueError("a report needs at least one run")
    matched = [*replays, *[None] * (len(runs) - len(replays))]
    exhibits = [Exhibit(*run, replayed) for run, replayed in zip(runs, matched, strict=True)]
    file.write_text(render(exhibits, comparison, bundle or make_bundle), encoding="utf-8", errors="replace")


def render(exhibits: Sequence[Exhibit], comparison: Found | None, bundled: Callable[[], str]) -> str:
    """Return the page as text."""
    limits = Limits(VOTES_LIMIT // len(exhibits), TEXTS_LIMIT // len(exhibits))
    views = [_view(number, exhibit, limits) for number, exhibit in enumerate(exhibits, 1)]
    data = {view["id"]: view.pop("data") for view in views}
    compared = None if comparison is None else {"found": comparison, "sentence": arms_sentence(comparison)}
    if comparison is not None:
        data["arms"] = {"charts": dict.fromkeys(("changes", "slots"), series.arms(comparison))}
    charts = Markup(embed(specs()))
    bundle, script = bundled(), (TEMPLATES / "page.js").read_text("utf-8")
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            runs=views,
            grid=_grid(views),
            compared=compared,
            data=Markup(embed(data)),
            specs=charts,
            bundle=Markup(bundle),
            script=Markup(script),
            style=Markup((TEMPLATES / "page.css").read_text("utf-8")),
            hashes=" ".join(f"'sha256-{_digest(text)}'" for text in (bundle, script)),
            version=version("keff"),
            series=_legend(),
        )
    )


def _view(number: int, exhibit: Exhibit, limits: Limits) -> dict[str, Any]:
    record, found = exhibit.record, exhibit.estimates
    cap = found["k_star"]["k_max"] if found["k_star"] else 32
    charts = _charts(exhibit, cap)
    return {
        "id": f"run-{number}",
        "title": Path(record.path).stem or record.path,
        "task": record.info.task or "",
        "model": record.info.model or "",
        "record": record,
        "found": found,
        "cap": cap,
        "single": _single(found),
        "headline": headline(found, cap, exhibit.replayed),
        "replayed": exhibit.replayed,
        "rows": _numbers(found),
        "charts": charts,
        "provenance": _provenance(record),
        "data": {"charts": charts, "items": items_payload(record, limits)},
    }


def _single(found: Found) -> dict[str, Any] | None:
    """Return the accuracy of one path with its band; None without gold answers."""
    if found["p"] is None:
        return None
    lo, hi = part(found, "bands", "majority").get("1") or (None, None)
    return {"value": found["p"], "lo": lo, "hi": hi}


def _charts(exhibit: Exhibit, cap: int) -> dict[str, Any]:
    """Return the datasets of every chart that this run has something to draw in."""
    found, votes = exhibit.estimates, exhibit.record.ballot.votes
    frontier = "frontier_tokens" if votes.tokens is not None else "frontier_paths"
    drawn = {
        "saturation": series.saturation(found, cap) if found["majority"] and votes.k > 1 else {},
        "stability": series.stability(found) if not found["majority"] and votes.k > 1 else {},
        "worth": series.worth(found, cap),
        "difficulty": series.difficulty(votes, found) if votes.k > 1 else {},
        frontier: series.frontier(found, votes, exhibit.replayed),
        "slots": series.slots(slot_table(votes)) if votes.correct is not None else {},
    }
    return {name: data for name, data in drawn.items() if data}


def _numbers(found: Found) -> list[dict[str, Any]]:
    """Return the table under the saturation chart: powers of two, measured and predicted."""
    names = ("beta_binomial", "plurality", "bounds", "binomial")
    models, ahead, bounds, independent = (part(found, "predicted", name) for name in names)
    tops = [int(k) for k in independent] or [found["k"]]
    ks = sorted({*tops, *(2**power for power in range(found["k"].bit_length())), found["k"]})
    return [
        {
            "k": k,
            "plurality": part(found, "plurality").get(str(k)),
            "plurality_ahead": ahead.get(str(k)) if k > found["k"] else None,
            "majority": part(found, "majority").get(str(k)),
            "model": models.get(str(k)),
            "independent": independent.get(str(k)),
            "bounds": bounds.get(str(k)),
        }
        for k in ks
    ]


def _grid(views: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Arrange several runs as models x tasks; None for one run. Runs that name neither get a row each."""
    if len(views) < 2:
        return None
    tasks = list(dict.fromkeys(view["task"] or "result" for view in views))
    models = list(dict.fromkeys(view["model"] or view["title"] for view in views))
    cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for view in views:
        place = view["model"] or view["title"], view["task"] or "result"
        cells.setdefault(place, []).append(view)
    return {"tasks": tasks, "models": models, "cells": cells}


def _provenance(record: Record) -> list[tuple[str, str]]:
    info = record.info
    facts: list[tuple[str, Any]] = [
        ("path", record.path),
        ("task", info.task),
        ("model", info.model),
        ("answers compared as", record.ballot.reading.space),
    ]
    facts += [(name, value) for name, value in _leaves(info.config or {})]
    return [(name, str(value)) for name, value in facts if value not in (None, "", [], {})]


def _leaves(value: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, inner in value.items():
        here = f"{prefix}{name}"
        nested = cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else None
        found += [(here, inner)] if nested is None else _leaves(nested, f"{here} ")
    return found


def _legend() -> list[dict[str, str]]:
    looks = ("solid blue", "dashed blue", "solid orange", "dashed orange", "dotted grey")
    return [{"label": label, "look": look} for label, look in zip(series.SERIES, looks, strict=True)]


@cache
def make_bundle() -> str:
    """Return the chart libraries as one script."""
    return vl_convert.javascript_bundle(SNIPPET)


@contextmanager
def bundle_beside() -> Generator[Callable[[], str]]:
    """Make the bundle in a process beside this one, and give a function that waits for it.

    It takes two seconds of one processor and holds the interpreter's lock, so a thread would gain nothing.
    """
    code = (
        f"import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle({SNIPPET!r}).encode())"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:

        def wait() -> str:
            text = process.communicate()[0].decode("utf-8")
            return text if process.returncode == 0 else make_bundle()

        try:
            yield wait
        finally:
            process.kill()


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": _percent, "fixed": _fixed, "within": _within, "pair": _pair}
    return environment


def _percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None or value != value else f"{value:.{digits}%}"


def _fixed(value: float | None, digits: int = 2) -> str:
    if value is None or value != value:
        return "–"
    return "∞" if abs(value) == float("inf") else f"{value:.{digits}f}"


def _within(one: Found | None, digits: int = 2) -> str:
    """Format a value with its interval."""
    if one is None:
        return "–"
    if one["lo"] is None and one["hi"] is None:
        return _fixed(one["value"], digits)
    return f"{_fixed(one['value'], digits)} [{_fixed(one['lo'], digits)}, {_fixed(one['hi'], digits)}]"


def _pair(one: Found | None, digits: int = 1) -> str:
    """Format a share with its interval, in percent."""
    if one is None or one["value"] is None:
        return "–"
    if one["lo"] is None:
        return _percent(one["value"], digits)
    return f"{_percent(one['value'], digits)} [{100 * one['lo']:.{digits}f}, {100 * one['hi']:.{digits}f}]"
