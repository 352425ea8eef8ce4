"""Add recorded workloads to an atlas of measured correlations.

Writes a page, CSV, JSON and a figure; derived numbers only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from keff.analysis.atlas import About, AtlasEntry, measure
from keff.cli import _console
from keff.cli import _options as o
from keff.cli import _sample_options as s
from keff.cli._console import print_json
from keff.cli._groups import LogOptions
from keff.cli._options import grouped
from keff.errors import UsageError, unknown
from keff.plugins import missing_extra
from keff.reading.open import Record
from keff.reading.several import open_records
from keff.report.atlas import Atlas, Source, draw_atlas, read_atlas, write_atlas

Folder = Annotated[
    Path, typer.Option("--out", "-o", help="Folder of the atlas: created, or added to.", show_default=False)
]
# What an atlas says of where a record is from, with what stands where nothing is said.
ABOUT = {"dataset": "", "setting": "", "source": "own records", "url": "", "licence": ""}

AboutPairs = Annotated[
    list[str] | None,
    typer.Option(
        "--about", metavar="NAME=VALUE", help=f"Where the records are from: {', '.join(ABOUT)}; repeatable."
    ),
]


@grouped(without=("branches",))
def command(
    paths: o.Paths,
    out: Folder,
    model: s.Model = None,
    about: AboutPairs = None,
    *,
    log: LogOptions,
    seed: o.AnalysisSeed = 0,
    json: o.Json = False,
) -> None:
    """Measure every PATH and add its line."""
    opening = log.opening()
    said = _said(about)
    source = said["source"]
    old = read_atlas(out / "atlas.json")
    records = [record for path in paths for record in open_records(path, opening)]
    lines = [measure(record, _about(record, model, said), seed) for record in records]
    atlas = old.added({source: Source(source, said["url"], "", said["licence"])}, lines)
    try:
        files = [*write_atlas(atlas, out), *_draw(atlas, out)]
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror or error}: name another folder with -o") from None
    if json:
        entries = [entry.to_dict() for entry in lines]
        print_json({"entries": entries, "files": [str(file) for file in files]})
        return
    for entry in lines:
        _console.say(_line(entry), 0)
    for file in files:
        _console.say(str(file), 0)


def _said(pairs: list[str] | None) -> dict[str, str]:
    given = {name: str(value) for name, value in s.parse_pairs(pairs, "--about").items()}
    for name in given:
        if name not in ABOUT:
            raise UsageError(f"--about {name}: {unknown('name', name, list(ABOUT))}")
    return ABOUT | given


def _about(record: Record, model: str | None, said: dict[str, str]) -> About:
    name = Path(record.path).stem or record.path
    data = said["dataset"] or record.info.task or name
    return About(name, model or record.info.model or "unknown model", data, said["setting"], said["source"])


def _line(entry: AtlasEntry) -> str:
    saved = (
        "" if entry.paths_saved is None else f", {entry.paths_saved.value:.0%} of {entry.today} paths saved"
    )
    decided = f"{entry.verdict or 'no decision'}, {entry.policy}"
    return f"{entry.name}: one path {entry.p.percent()}, c = {entry.c.text()}, {decided}{saved}"


def _draw(atlas: Atlas, out: Path) -> list[Path]:
    names = {key: source.title for key, source in atlas.sources.items()}
    try:
        return [draw_atlas(atlas.entries, names, out / "atlas.svg")]
    except ImportError as error:
        _console.warn(str(missing_extra(error, "the figure of the atlas")))
        return []
