# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false
"""Reading of a record on the nodes of a Ray cluster (extra ``ray``): vote tables, merged."""

from __future__ import annotations

from pathlib import Path

import ray
from ray.exceptions import RayError

from keff.engines._ray import connect, failure
from keff.log import address, find_log
from keff.logs.parquet import ParquetLog, parts_of
from keff.logs.parts.bulk import Bulk, ColumnOptions
from keff.logs.parts.coding import NotPlainError
from keff.reading.ballot import Ballot, Reading
from keff.reading.open import Opening, reading, told
from keff.reading.parts import VoteParts, VoteTable

# Shares for each processor of the cluster: one that is slow, or begun anew elsewhere, holds up little.
SHARES = 4


def count_on_nodes(path: Path, opening: Opening, first: Bulk, how: Reading) -> Ballot:
    """Return the votes of row groups read on ``opening.on``, as ``ballot_of_parts`` does.

    Every node must see the files under the same path or address. Ray reads the share of a lost node again on
    another; tables are merged in the order of the shares, each once. ``first`` is any part, for reading
    single questions again. Raises NotPlainError where the record must be read in one process.
    """
    log = find_log(path, opening.format, opening.options)
    groups = log.row_groups(path) if isinstance(log, ParquetLog) else 0
    if not groups or bool(opening.options):
        raise NotPlainError
    connect(str(opening.on))
    everywhere = path if address(path) else path.absolute()
    shares = min(groups, SHARES * max(1, int(ray.cluster_resources().get("CPU", 1))))
    count = ray.remote(count_share).options(max_retries=-1, num_cpus=1, scheduling_strategy="SPREAD")
    tasks = [count.remote(everywhere, opening, (share, shares)) for share in range(shares)]
    try:
        tables: list[VoteTable | None] = [ray.get(task) for task in tasks]
    except RayError as error:
        raise failure(error) from None
    finally:
        for task in tasks:
            ray.cancel(task)
    parts, plain = VoteParts(int(first.sizes[0]), how), [table for table in tables if table is not None]
    if len(plain) < shares:
        raise NotPlainError
    parts.join(plain, first.question)
    return parts.ballot()


def count_share(path: Path, opening: Opening, share: tuple[int, int]) -> VoteTable | None:
    """Return the vote table of the i-th of m shares; None where rows must be read one by one."""
    log = find_log(path, opening.format, opening.options)
    votes: VoteParts | None = None
    try:
        how = reading(told(log, path, opening), opening)
        for bulk in parts_of(path, ColumnOptions(read=how.reread), share):
            votes = votes or VoteParts(int(bulk.sizes[0]), how)
            votes.add(bulk)
    except NotPlainError:
        return None
    return None if votes is None else votes.table()
