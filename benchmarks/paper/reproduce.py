"""The whole reproduction on full-size records, beside a plain analysis that loops over bootstrap replicates.

Writes complete records in the published layout (6 saturation files, 55 matrix files, about 200 MB) to a
temporary folder, reproduces everything with 10,000 replicates, and times the same bootstrap written as a loop
over replicates on a stated fraction of its work, scaled up.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from keff.paper import records
from keff.paper.drawings import draw
from keff.paper.records import load_matrix, load_series
from keff.paper.reproduce import Reproducing, reproduce, write
from keff.report.vega import converter
from tests.rigs.published_records import write_all

REPLICATES = 10_000
CELLS, PASSES = 3, 50
"""The plain loop is timed on this many cells and replicates."""


def plain_rho(y: np.ndarray) -> float:
    """Return the mean Pearson correlation over pairs of columns that vary."""
    kept = y[:, y.std(axis=0) > 0]
    return float(np.corrcoef(kept, rowvar=False)[np.triu_indices(kept.shape[1], 1)].mean())


def plain_seconds(root: Path) -> float:
    """Return the seconds that the loop would take for all cells and replicates."""
    rng = np.random.default_rng(0)
    files = records.matrix_files()
    spent = 0.0
    for file, model, tasks in files[:: len(files) // CELLS][:CELLS]:
        parts, _ = load_matrix(root, file, model, tasks[:1])
        arms = [parts[f"{tasks[0]}/{method}"].votes.scored() for method in (records.SC, records.PT)]
        begun = time.perf_counter()
        for _ in range(PASSES):
            [plain_rho(y[rng.integers(0, len(y), len(y))]) for y in arms]
        spent += time.perf_counter() - begun
    cells = len(records.MATRIX_MODELS) * len(records.BENCHMARKS)
    matrix = spent / (CELLS * PASSES) * cells * REPLICATES
    return matrix + plain_gap_seconds(root)


def plain_gap_seconds(root: Path) -> float:
    """Return the seconds of the loop for the intervals of MV@K* - MV@32 in the six saturation cells."""
    series = records.SERIES[0]
    parts, _ = load_series(root, series)
    votes = parts[f"{series.task}/{records.SC}"].votes
    y, own = votes.scored(), votes.cluster_ids
    rows = [np.flatnonzero(own == one) for one in range(own.max() + 1)]
    rng = np.random.default_rng(1)
    begun = time.perf_counter()
    for _ in range(PASSES):
        again = y[np.concatenate([rows[one] for one in rng.integers(0, len(rows), len(rows))])]
        for k in (6, 32):
            right = again[:, :k].sum(axis=1)
            np.where(2 * right == k, 0.5, 2 * right > k).mean()
    return (time.perf_counter() - begun) / PASSES * REPLICATES * 6


def peak() -> float:
    """Return the peak memory in MB of this process and of its largest child."""
    own, child = (
        resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return max(own, child) / 1024


def main() -> None:
    """Print the times, their ratio and the peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_all(root)
        size = sum(file.stat().st_size for file in root.rglob("*.jsonl")) / 1e6
        begun, cpu = time.perf_counter(), time.process_time()
        with converter() as save_all:
            found = reproduce(root, Reproducing(REPLICATES))
            computed = time.perf_counter() - begun
            write(found, root / "out")
            draw(save_all, found, root / "out")
        wall = time.perf_counter() - begun
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = time.process_time() - cpu + children.ru_utime + children.ru_stime
        memory = peak()
        plain = plain_seconds(root)
    processors = os.cpu_count() or 1
    print(
        f"records                                {size:8.0f} MB, {len(found.cells)} cells, "
        f"{REPLICATES} replicates"
    )
    print(
        f"keff reproduce, wall ({processors} processors)     {wall:8.1f} s, of which writing and "
        f"drawing {wall - computed:.1f} s"
    )
    print(f"keff reproduce, processor time         {used:8.1f} s")
    print(f"peak memory of a process               {memory:8.0f} MB")
    share = CELLS * PASSES / (60 * REPLICATES)
    print(f"loop over replicates, one processor    {plain:8.0f} s (timed on {share:.3%} of the work)")
    print(f"ratio of processor times               {plain / used:8.0f}")
    print(
        f"claim: whole reproduction of the paper, {size:.0f} MB of records | {computed:.1f} s, "
        f"with all files and figures {wall:.1f} s | under 5 s on 2 cores"
    )
    print(f"claim: peak memory of a reproduction | {memory:.0f} MB | under 150 MB")
    print(
        f"claim: reproduction against a loop over replicates, processor time | {plain / used:.0f} "
        "x | above 1 x"
    )


if __name__ == "__main__":
    main()
