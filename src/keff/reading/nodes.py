# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false
"""Reading of a record on the nodes of a Ray cluster (extra ``ray``): tables of questions, merged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import ray
from ray.exceptions import RayError

from keff.engines._ray import connect, failure
from keff.errors import UsageError
from keff.log import Log, LogInfo, NoteSink, address, path_text
from keff.logs.parquet import ParquetLog
from keff.logs.parts.batches import ColumnBatch
from keff.reading.admit import merge_notes
from keff.reading.ballot import Reading
from keff.reading.open import Opening, begin, read_share
from keff.reading.questions import RecordedQuestions
from keff.records import Note

# Shares for each processor of the cluster: one that is slow, or begun anew elsewhere, holds up little.
SHARES = 4


def read_on_nodes(
    path: Path, opening: Opening, tell: NoteSink
) -> tuple[Log, LogInfo, Reading, RecordedQuestions]:
    """Return what ``open.read_share`` does, of row groups read on ``opening.on``.

    Every node must see the files under the same path or address. Ray reads the share of a lost node again on
    another; tables are merged in the order of the shares, each once. Raises UsageError for records that are
    not read by row groups.
    """
    log, info, how = begin(path, opening, tell)
    groups = log.row_groups(path) if isinstance(log, ParquetLog) else 0
    if not groups or opening.part is not None or opening.branches is not None or opening.trim is not None:
        raise UsageError(f"{path_text(path)}: {_NOT_ON_NODES}")
    connect(str(opening.on))
    everywhere = path if address(path) else path.absolute()
    shares = min(groups, SHARES * max(1, int(ray.cluster_resources().get("CPU", 1))))
    read = ray.remote(_share).options(max_retries=-1, num_cpus=1, scheduling_strategy="SPREAD")
    here = replace(opening, on=None, texts=False)
    tasks = [read.remote(everywhere, here, (share, shares)) for share in range(shares)]
    table, notes = RecordedQuestions(), list[Note]()
    try:
        for task in tasks:
            batch, heard = ray.get(task)
            table.add_batch(batch)
            notes += heard
    except RayError as error:
        raise failure(error) from None
    finally:
        for task in tasks:
            ray.cancel(task)
    for note in merge_notes(notes):
        tell(note)
    if table.repeats_ids:
        for _ in log.questions(path):  # one by one they say where
            pass
    return log, info, how, table


_NOT_ON_NODES = (
    "--on reads Parquet with one row per question, lists of plain values and equally many paths of one "
    "model: keff export writes it; without --on other records are read too"
)


def _share(path: Path, opening: Opening, share: tuple[int, int]) -> tuple[ColumnBatch, list[Note]]:
    """Return the questions of the i-th of m shares, with notes on what was left out."""
    notes: list[Note] = []
    *_, table = read_share(path, opening, notes.append, share)
    return table.as_batch(), notes
