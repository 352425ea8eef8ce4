"""The report page, one self-contained HTML file: what to do, why, and every question."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from markupsafe import Markup

from keff import files
from keff.analysis.combine import slot_table
from keff.analysis.decision import LEAST_QUESTIONS
from keff.analysis.money import doublings
from keff.analysis.results.estimates import Analysis
from keff.analysis.results.replay import Replay
from keff.analysis.results.words import points
from keff.reading.open import Record
from keff.records import frozen, percent
from keff.report import advice_series, series, vega
from keff.report.headline import Headline, alternatives, headline
from keff.report.items import TEXTS_LIMIT, ByteLimits, QuestionTable, embed, items_payload
from keff.report.series import Datasets, number_text
from keff.report.template import TEMPLATES, drawings, render

# Bytes of vote splits in the whole page.
VOTES_LIMIT = 280_000


@frozen
class Exhibit:
    """One run on the page: its record, analysis, and replay (None: not replayed)."""

    record: Record
    analysis: Analysis
    replayed: Replay | None = None


def write_page(exhibits: Sequence[Exhibit], file: Path, draw: vega.Draw = vega.draw) -> None:
    """Write the report page of some runs: one HTML file that works offline.

    Records that were opened with ``Opening(texts=True)`` show raw paths; ``draw`` draws the charts. Vote
    splits and texts are embedded up to a size limit, beyond it a stable sample. Raises ValueError without
    runs, OSError when the file cannot be written.
    """
    if not exhibits:
        raise ValueError("a report needs at least one run")
    limits = ByteLimits(VOTES_LIMIT // len(exhibits), TEXTS_LIMIT // len(exhibits))
    views = [_view(place, exhibit, limits) for place, exhibit in enumerate(exhibits, 1)]
    script = (TEMPLATES / "page.js").read_text("utf-8")
    page = render(
        "page.html.j2",
        {"percent": percent, "fixed": number_text, "points": points},
        runs=views,
        grid=_grid(views),
        drawings=drawings({view.id: view.charts for view in views}, draw),
        data=Markup(embed({view.id: view.items for view in views})),
        script=Markup(script),
        # The policy admits the script by the hash of its text.
        hash=base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii"),
        series=_legend(),
    )
    files.write_text(file, page)


@frozen
class RunView:
    """One run in the template's form; ``charts`` are the datasets that have data."""

    id: str
    title: str
    task: str
    model: str
    analysis: Analysis
    letters: Mapping[str, str]
    told: Mapping[str, str]
    headline: Headline
    replayed: Replay | None
    rows: Sequence[Mapping[str, Any]]
    charts: Mapping[str, Datasets]
    provenance: Sequence[tuple[str, str]]
    items: QuestionTable


def _view(place: int, exhibit: Exhibit, limits: ByteLimits) -> RunView:
    record, analysis = exhibit.record, exhibit.analysis
    return RunView(
        id=f"run-{place}",
        title=Path(record.path).stem or record.path,
        task=record.info.task or "",
        model=record.info.model or "",
        analysis=analysis,
        letters=advice_series.rule_letters(exhibit.replayed),
        told=alternatives(analysis, record.ballot.votes),
        headline=headline(analysis.decision, analysis.bill, analysis.seconds),
        replayed=exhibit.replayed,
        rows=_numbers(analysis),
        charts=_charts(exhibit, analysis.cap),
        provenance=_provenance(record),
        items=items_payload(record, limits),
    )


def _charts(exhibit: Exhibit, cap: int) -> dict[str, Datasets]:
    """Return the chart datasets for which this run has data; none where questions are too few to show any.

    A page of many small records would take half a minute to draw what says nothing.
    """
    analysis, votes = exhibit.analysis, exhibit.record.ballot.votes
    if votes.n_clusters < LEAST_QUESTIONS:
        return {}
    frontier = "frontier_tokens" if votes.tokens is not None else "frontier_paths"
    several = votes.k > 1
    drawn: dict[str, Datasets] = {
        "gain": advice_series.gain(analysis, cap) if analysis.majority and several else {},
        "saturation": series.saturation(analysis, cap) if analysis.majority and several else {},
        "stability": advice_series.stability(analysis) if not analysis.majority and several else {},
        "worth": series.worth(analysis, cap),
        "difficulty": series.difficulty(votes, analysis) if several else {},
        "reliability": series.reliability(analysis),
        frontier: advice_series.frontier(analysis, votes, exhibit.replayed),
        "dollars": advice_series.dollars(analysis),
        "times": advice_series.times(analysis),
        "slots": series.slots(slot_table(votes)) if votes.correct is not None else {},
    }
    return {name: data for name, data in drawn.items() if data}


def _numbers(analysis: Analysis) -> list[dict[str, Any]]:
    """Return the table below the saturation chart: measured and predicted votes at powers of two."""
    ahead = analysis.predicted
    if ahead is None:
        return []
    return [
        {
            "k": k,
            "plurality": (analysis.plurality or {}).get(k),
            "plurality_ahead": (ahead.plurality or {}).get(k) if k > analysis.k else None,
            "majority": (analysis.majority or {}).get(k),
            "model": (ahead.beta_binomial or {}).get(k),
            "independent": ahead.binomial.get(k),
            "bounds": (ahead.bounds or {}).get(k),
        }
        for k in sorted({*ahead.binomial, *doublings(analysis.k)})
    ]


def _grid(views: Sequence[RunView]) -> dict[str, Any] | None:
    """Return several runs as a grid of models x tasks; None for one run."""
    if len(views) < 2:
        return None
    cells: dict[tuple[str, str], list[RunView]] = {}
    for view in views:
        cells.setdefault((view.model or view.title, view.task or "result"), []).append(view)
    models, tasks = (list(dict.fromkeys(place[axis] for place in cells)) for axis in (0, 1))
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
    leaves: list[tuple[str, Any]] = []
    for name, inner in value.items():
        here = f"{prefix}{name}"
        nested = cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else None
        leaves += [(here, inner)] if nested is None else _leaves(nested, f"{here} ")
    return leaves


def _legend() -> list[dict[str, str]]:
    looks = ("solid blue", "dashed blue", "solid orange", "dashed orange", "dotted grey")
    return [{"label": label, "look": look} for label, look in zip(series.SERIES, looks, strict=True)]
