"""The atlas: a line for each recorded workload, as JSON, CSV, page and figure; the same bytes on every run.

Used by ``write_atlas.py``, which makes docs/atlas, and by ``write_readme.py``, which quotes it.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import TypeAdapter

from keff import files
from keff.analysis.decision import Aim
from keff.analysis.estimates import Settings, analyze
from keff.analysis.results.decision import Decision, VotingVerdict
from keff.analysis.results.estimates import Analysis
from keff.analysis.results.words import points
from keff.analysis.terms import Terms
from keff.analysis.workload import Workload
from keff.errors import UsageError
from keff.policy import parse_policy
from keff.policy.spec import PolicySpec
from keff.reading.open import Record
from keff.records import Interval, Json, Result, plain
from keff.report.figures import Spec, layer, quantity, series, with_style
from keff.report.vega import svg_of
from keff.stats.votes import Votes
from keff.stats.voting.choose import k_eff

# Every workload is taken to draw 8 paths today, or what it recorded where that is less, so that lines can be
# compared and nothing in them is predicted.
TODAY = 8
_WANTED = "the atlas needs gold answers, two paths per question, and questions that differ in difficulty"


@dataclass(frozen=True, slots=True)
class About(Result):
    """What a record is: its name in the atlas, model, data set, how it was sampled, and the source's key."""

    name: str
    model: str
    dataset: str
    setting: str
    source: str


@dataclass(frozen=True, slots=True)
class AtlasEntry(Result):
    """One workload of ``questions`` with ``paths`` recorded paths each.

    ``p`` is the accuracy of one path, ``c`` the correlation of two paths' correctness, ``k_eff`` what 8 paths
    carry and ``ceiling`` what any number carries, in independent paths. ``today`` is the number of paths
    that the decision is against, and ``vote`` the accuracy of the most frequent answer of so many (a subset
    average). ``policy`` is the rule of the decision and ``verdict`` whether to vote; ``mean_paths`` is what
    the rule draws, ``kept`` the share of the accuracy of ``vote`` that it keeps and ``points`` its accuracy
    minus that, ``paths_saved`` and ``tokens_saved`` the shares of the cost of ``today`` that it saves.
    Intervals are 95%; None is what the record cannot say, and the ceiling where c is not above 0.
    """

    name: str
    model: str
    dataset: str
    setting: str
    source: str
    questions: int
    paths: int
    p: Interval
    c: Interval
    k_eff: Interval
    ceiling: Interval | None
    today: int
    vote: Interval | None
    verdict: VotingVerdict | None
    policy: str
    mean_paths: Interval | None
    kept: Interval | None
    points: Interval | None
    paths_saved: Interval | None
    tokens_saved: Interval | None
    warnings: tuple[str, ...]


def measure(record: Record, about: About, seed: int = 0) -> AtlasEntry:
    """Return the line of one record; raises UsageError where correctness or more than a path is missing."""
    votes = record.ballot.votes
    today = min(TODAY, votes.k)
    analysis = analyze(record, Settings(seed=seed, aim=Aim(slower=None), terms=Terms(now=str(today))))
    p, c, decision = analysis.single, analysis.c, analysis.decision
    if p is None or c is None or math.isnan(c.value):
        raise UsageError(f"{record.path}: {_WANTED}")
    change = decision.change
    return AtlasEntry(
        name=about.name,
        model=about.model,
        dataset=about.dataset,
        setting=about.setting,
        source=about.source,
        questions=analysis.n,
        paths=analysis.k,
        p=p,
        c=c,
        k_eff=c.mapped(lambda value: float(k_eff(TODAY, value)), f"from c ({c.method})"),
        ceiling=analysis.ceiling if c.value > 0 else None,
        today=today,
        vote=_vote(analysis, today),
        verdict=decision.verdict,
        policy=decision.policy,
        mean_paths=decision.expected_paths,
        kept=None if decision.kept is None else _plain(decision.kept),
        points=change.points,
        paths_saved=change.paths and change.paths.mapped(lambda paths: -paths / today),
        tokens_saved=_tokens_saved(votes, decision, today, seed),
        warnings=tuple(note.code for note in analysis.warnings),
    )


def _vote(analysis: Analysis, k: int) -> Interval | None:
    """Return the accuracy of the most frequent answer of k of the recorded paths."""
    return analysis.curve_at(analysis.plurality, k)


def _tokens_saved(votes: Votes, decision: Decision, today: int, seed: int) -> Interval | None:
    """Return the share of the tokens of today's paths that is not drawn; None where tokens are unknown.

    As replayed, with the interval of a ratio of means over questions.
    """
    if votes.tokens is None or votes.answers is None or decision.verdict is None:
        return None
    rule = parse_policy(decision.policy)
    if PolicySpec.parse(rule.spec).name == "fixed":  # paths are exchangeable: no order to average over
        share = rule.cap / today
        return Interval(1 - share, 1 - share, 1 - share, "exact")
    work = Workload.of(votes, [rule], parse_policy(f"fixed:{today}"), seed=seed)
    spent, full = work.outcome(rule).tokens, work.today.tokens
    assert spent is not None and full is not None
    share = work.rows.mean(spent) / work.rows.mean(full)
    return work.rows.interval(1 - share - (spent - share * full) / work.rows.mean(full))


def _plain(value: Interval) -> Interval:
    return Interval(value.value, value.lo, value.hi, value.method)


# Points on a side of each panel.
SIDE = 290


def draw_atlas(entries: Sequence[AtlasEntry], names: dict[str, str], file: Path) -> Path:
    """Write the figure as SVG, the same bytes on every run; ``names`` are the sources in the legend."""
    sources = [names.get(entry.source, entry.source) for entry in entries]
    of = list(dict.fromkeys(sources))
    left = [
        {"of": source} | _ends("x", entry.p) | _ends("y", entry.c)
        for source, entry in zip(sources, entries, strict=True)
    ]
    right = [
        {"of": source} | _ends("x", entry.c) | _ends("y", entry.paths_saved)
        for source, entry in zip(sources, entries, strict=True)
        if entry.paths_saved is not None
    ]
    saved = f"share of {TODAY} paths saved, 99% of the accuracy kept"
    panels = [
        _panel(left, of, "accuracy of one path", "c, correlation of two paths' correctness"),
        _panel(right, of, "c", saved),
    ]
    look = with_style({"hconcat": panels, "spacing": 16})
    look["config"]["legend"] |= {"columns": 3}
    file.write_text(svg_of(look), "utf-8")
    return file


def _ends(axis: str, value: Interval) -> dict[str, Any]:
    lo, hi = value.limits or (None, None)
    return {axis: value.value, f"{axis}_lo": lo, f"{axis}_hi": hi}


def _panel(rows: Sequence[dict[str, Any]], of: Sequence[str], x_title: str, y_title: str) -> Spec:
    """Return points with their intervals both ways."""
    whole: Spec = {"scale": {"domain": [0, 1]}}
    x, y, colour = quantity("x", x_title, **whole), quantity("y", y_title, **whole), series("of", of)
    across = {"x": quantity("x_lo", x_title, **whole), "x2": {"field": "x_hi"}, "y": y, "color": colour}
    along = {"x": x, "y": quantity("y_lo", y_title, **whole), "y2": {"field": "y_hi"}, "color": colour}
    thin = {"type": "rule", "opacity": 0.4, "strokeWidth": 0.6}
    points = {"x": x, "y": y, "stroke": colour, "fill": colour, "shape": colour}
    limited = [[row for row in rows if row[f"{axis}_lo"] is not None] for axis in ("x", "y")]
    return {
        "width": SIDE,
        "height": SIDE,
        "layer": [
            layer(thin, limited[0], across),
            layer(thin, limited[1], along),
            layer({"type": "point", "filled": False, "opacity": 1}, rows, points),
        ],
    }


# Written into every atlas, so that who reads one knows its form.
FORMAT = "keff atlas 2"
# Significant digits that are written: more would be noise, and could differ between machines.
DIGITS = 4


@dataclass(frozen=True, slots=True)
class Source(Result):
    """Where records come from: who recorded them, at which address and commit, under which licence."""

    title: str
    url: str = ""
    commit: str = ""
    licence: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Atlas(Result):
    """Lines of workloads with their sources; ``version`` and ``citation`` name the collection."""

    format: str
    version: str
    citation: str
    sources: Mapping[str, Source]
    entries: tuple[AtlasEntry, ...]

    def added(self, sources: Mapping[str, Source], entries: Iterable[AtlasEntry]) -> Atlas:
        """Return the atlas with further lines, which replace those of the same name; in a fixed order."""
        lines = {entry.name: entry for entry in (*self.entries, *entries)}
        order = sorted(lines.values(), key=lambda entry: (entry.dataset, entry.model, entry.name))
        known = dict(sorted({**self.sources, **sources}.items()))
        return replace(self, sources=known, entries=tuple(order))


EMPTY = Atlas(FORMAT, "own", "", {}, ())


def read_atlas(file: Path) -> Atlas:
    """Read ``atlas.json``."""
    return TypeAdapter(Atlas).validate_json(file.read_bytes())


def write_atlas(atlas: Atlas, folder: Path) -> list[Path]:
    """Write ``atlas.json``, ``atlas.csv`` and ``index.md`` into a folder; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"atlas.json": to_json(atlas), "atlas.csv": to_csv(atlas.entries), "index.md": to_page(atlas)}
    for name, text in texts.items():
        files.write_text(folder / name, text)
    return [folder / name for name in texts]


def to_json(atlas: Atlas) -> str:
    """Return the atlas as JSON, one value per line."""
    return json.dumps(_short(plain(atlas)), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _short(value: Json) -> Json:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, list):
        return [_short(part) for part in value]
    return {name: _short(part) for name, part in value.items()} if isinstance(value, dict) else value


def to_csv(entries: Sequence[AtlasEntry]) -> str:
    """Return the lines as CSV: every estimate has a column each for its value and its limits."""
    rows = [_flat(entry) for entry in entries]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _flat(entry: AtlasEntry) -> dict[str, str]:
    names = ("name", "model", "dataset", "setting", "source")
    row = {name: _safe(str(getattr(entry, name))) for name in names}
    row |= {"questions": str(entry.questions), "paths": str(entry.paths)}
    row |= _columns("p", entry.p) | _columns("c", entry.c)
    row |= _columns(f"k_eff_{TODAY}", entry.k_eff) | _columns("ceiling", entry.ceiling)
    row |= {"today": str(entry.today)} | _columns("vote", entry.vote)
    row |= {"verdict": entry.verdict or "", "policy": _safe(entry.policy)}
    row |= _columns("mean_paths", entry.mean_paths) | _columns("kept", entry.kept)
    row |= _columns("points", entry.points) | _columns("paths_saved", entry.paths_saved)
    return row | _columns("tokens_saved", entry.tokens_saved)


def _safe(text: str) -> str:
    """Return text that no spreadsheet takes for a formula: names come with records."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _columns(name: str, value: Interval | None) -> dict[str, str]:
    parts = (None, None, None) if value is None else (value.value, value.lo, value.hi)
    return dict(zip((name, f"{name}_lo", f"{name}_hi"), map(_cell, parts), strict=True))


def _cell(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:.{DIGITS}g}"


HEADERS = (
    "data set",
    "model",
    "size",
    "c",
    "one path, %",
    f"{TODAY} paths, %",
    "decision",
    "keff's rule",
    "its paths",
    "accuracy, points",
    "tokens saved, %",
)

TEMPLATE = Path(__file__).with_name("atlas.md")


def to_page(atlas: Atlas) -> str:
    """Return the page: what the lines say together, the table, how to add to it, and the sources."""
    head = f"|{'|'.join(HEADERS)}|\n|---|---|{'---:|' * 4}---|---|{'---:|' * 3}\n"
    rows = (f"|{'|'.join(map(_escaped, _cells(entry)))}|\n" for entry in atlas.entries)
    return (
        TEMPLATE.read_text("utf-8")
        .format(
            today=TODAY,
            summary=summary(atlas.entries),
            table=head + "".join(rows),
            sources="".join(_source(source) for source in atlas.sources.values()),
            citation=f"\n## To cite\n\n{atlas.citation}" if atlas.citation else "",
        )
        .rstrip("\n")
        + "\n"
    )


def summary(entries: Sequence[AtlasEntry]) -> str:
    """Say in two sentences what the lines have in common."""
    if not entries:
        return "No workload yet."
    cs = sorted(entry.c.value for entry in entries)
    worth = sorted(entry.k_eff.value for entry in entries)
    paths = sum(entry.questions * entry.paths for entry in entries)
    text = (
        f"{len(entries)} workloads, {paths:,} recorded paths. The correlation c runs from {cs[0]:.2f} to "
        f"{cs[-1]:.2f}, with a median of {median(cs):.2f}: in the median workload {TODAY} paths carry as "
        f"much evidence as {median(worth):.1f} independent ones."
    )
    drawn, kept = of_eight(entries)
    if drawn and kept:
        text += (
            f" Of {TODAY} paths keff's rule draws {median(drawn):.1f} in the median ({drawn[0]:.1f} to "
            f"{drawn[-1]:.1f}), and keeps {median(kept):.1%} of their accuracy "
            f"({kept[0]:.1%} to {kept[-1]:.1%})."
        )
    return text


def of_eight(entries: Sequence[AtlasEntry]) -> tuple[list[float], list[float]]:
    """Return the mean paths of the rules, and the shares they keep, of workloads of 8 paths; both sorted."""
    eight = [entry for entry in entries if entry.today == TODAY]
    drawn = sorted(entry.mean_paths.value for entry in eight if entry.mean_paths is not None)
    return drawn, sorted(entry.kept.value for entry in eight if entry.kept is not None)


def _cells(entry: AtlasEntry) -> list[str]:
    fewer = "" if entry.today == TODAY else f" ({entry.today} paths)"
    return [
        entry.dataset,
        f"{entry.model}, {entry.setting}" if entry.setting else entry.model,
        f"{entry.questions:,}×{entry.paths}",
        entry.c.text(),
        f"{100 * entry.p.value:.1f}",
        "–" if entry.vote is None else f"{100 * entry.vote.value:.1f}{fewer}",
        entry.verdict or "–",
        "–" if entry.verdict is None else f"`{entry.policy}`",
        "–" if entry.mean_paths is None else f"{entry.mean_paths.value:.1f}",
        points(entry.points),
        "–" if entry.tokens_saved is None else f"{100 * entry.tokens_saved.value:.0f}",
    ]


def _escaped(cell: str) -> str:
    """Return a cell that stays one cell and no markup: names come with records."""
    return cell.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _source(source: Source) -> str:
    title = f"[{source.title}]({source.url})" if source.url else source.title
    commit = f", commit `{source.commit[:12]}`" if source.commit else ""
    licence = f", {source.licence}" if source.licence else ""
    return f"- {title}{commit}{licence}.{' ' + source.note if source.note else ''}\n"
