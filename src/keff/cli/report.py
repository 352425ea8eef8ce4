"""Write one interactive HTML page about runs.

The page is one file that you can mail and read offline.

Example: keff report answers.jsonl --now 8 -o report.html
"""

from __future__ import annotations

from pathlib import Path

from keff.analysis.estimates import analyze
from keff.cli import _options as o
from keff.cli._console import print_json, say
from keff.cli._groups import LogOptions, WantedOptions
from keff.errors import UsageError
from keff.reading.several import open_records
from keff.report.write import write_runs


@o.grouped
def command(
    paths: o.Paths,
    out: o.ReportOut = Path("report.html"),
    *,
    log: LogOptions,
    trim: o.Trim = None,
    branches: o.BranchNames = None,
    sources: o.Sources = None,
    on: o.CountOn = None,
    wanted: WantedOptions,
    prices: o.Prices = None,
    seed: o.AnalysisSeed = 0,
    json: o.Json = False,
) -> None:
    """Analyse every PATH and write the page."""
    if not out.parent.is_dir():
        raise UsageError(f"{out}: the folder {out.parent} does not exist")
    opening = log.opening(texts=True, on=on, trim=trim, branches=branches, sources=sources)
    settings = wanted.settings(prices, seed)
    records = [record for path in paths for record in open_records(path, opening)]
    write_runs(((record, analyze(record, settings)) for record in records), out, settings.seed)
    if json:
        print_json({"report": str(out), "runs": len(records), "bytes": out.stat().st_size})
    else:
        say(f"{out}: {out.stat().st_size / 1e6:.2f} MB, self-contained")
