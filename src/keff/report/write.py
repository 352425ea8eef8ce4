"""Write the report page, where its extra is installed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Unpack, cast

import numpy as np

from keff.analysis import estimates
from keff.analysis.estimates import Settings
from keff.analysis.replay import Replaying, at_cap, replay
from keff.analysis.results.estimates import Analysis
from keff.analysis.results.replay import Replay
from keff.errors import PolicyError, UsageError
from keff.plugins import import_extra
from keff.policy import parse_policy
from keff.reading.open import Record
from keff.reading.source import SourceOptions
from keff.stats.votes import Votes

# Rules that need no second pass over the votes: the page should be there in seconds.
REPLAYED = ("fixed:8", "curtailed", "lead_k:2", "lead_k:3", "adaptive_consistency:0.95", "budget:4")
# Curves of the page end here: the paper's largest K.
CAP = 32


def write_report(
    source: object, file: str | PathLike[str], settings: Settings | None = None, **how: Unpack[SourceOptions]
) -> Path:
    """Analyse and write one self-contained interactive HTML page; returns its path.

    ``source`` is anything that ``keff.analyze`` takes, or a list of paths and Records for one page about all
    of them. Raises PluginError with the install line where the ``report`` extra is missing, UsageError when
    the page cannot be written.

    Example: ``keff.write_report("answers.csv", "report.html")``.
    """
    from keff.analysis.front import read  # all that Python offers: the command needs little of it

    settings, target = settings or Settings(), Path(file)
    records = [read(each, how, texts=True) for each in _several(source)]
    runs = ((record, estimates.analyze(record, settings)) for record in records)
    try:
        write_runs(runs, target, settings.seed)
    except OSError as error:
        raise UsageError(f"{target}: {error.strerror or error}") from None
    return target


def _several(source: object) -> list[object]:
    """Return a page's sources: the entries of a list, else the single source."""
    if isinstance(source, list | tuple):
        members = list(cast("Sequence[object]", source))
        if members and all(isinstance(each, str | PathLike | Record) for each in members):
            return members
    return [source]


def write_runs(runs: Iterable[tuple[Record, Analysis]], file: Path, seed: int = 0) -> None:
    """Write the page of analysed records; raises PluginError where the ``report`` extra is missing.

    What draws charts is made ready while ``runs`` are, where these are made as they are asked for.
    """
    page = import_extra("keff.report.page", "the report page")
    with page.vega.draw_beside() as draw:
        exhibits = [
            page.Exhibit(record, analysis, replay_of_report(record.ballot.votes, analysis, seed))
            for record, analysis in runs
        ]
        page.write_page(exhibits, file, draw)


def replay_of_report(votes: Votes, analysis: Analysis, seed: int) -> Replay | None:
    """Return the replay of the recommended and some other policies; None for too few paths."""
    decision = analysis.decision
    rules = at_cap(("fixed:1", *REPLAYED), parse_policy(decision.reference).cap)
    if votes.k < CAP or votes.answers is None or votes.correct is None:
        return None
    try:
        same = Replaying(now=decision.reference)
        return replay(
            votes, list(dict.fromkeys((*rules, decision.policy))), np.random.default_rng(seed), same
        )
    except PolicyError:
        return None  # template slots, which are not exchangeable
