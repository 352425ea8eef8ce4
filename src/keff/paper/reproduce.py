"""Reproduction of the paper's tables, figures and headline numbers from its records."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from keff.errors import LogError
from keff.files import write_text
from keff.paper import claims, matrix, records, saturation
from keff.paper import tables as looks
from keff.paper.cell import MatrixCell, measure
from keff.paper.claims import check_reference
from keff.paper.page import differences
from keff.paper.records import ArmSample, load_matrix, load_series
from keff.paper.saturation import SeriesEntry, TableRows, rows_of
from keff.records import Json, frozen, plain
from keff.report.tables import Format, file_of

# How processes are started: forked where that is possible, for nothing needs importing again.
METHOD = "fork" if os.name == "posix" else "spawn"

GET = "get them with: hf download OniReimu/DiversityCombining --repo-type dataset --local-dir RECORDS"

# Tables 2, 10 and 11 and Figure 2 are about this task.
TABLE_2 = "GSM8K (Math)"


@frozen
class Reproducing:
    """Settings: bootstrap replicates, seed, and number of processes (None: one per processor)."""

    replicates: int = 10_000
    seed: int = 0
    processes: int | None = None


@dataclass(slots=True)
class Reproduction:
    """Result: rows by table and figure, headline numbers, missing records, and discrepancies."""

    tables: dict[str, TableRows] = field(default_factory=dict[str, TableRows])
    figures: dict[str, TableRows] = field(default_factory=dict[str, TableRows])
    headline: dict[str, Json] = field(default_factory=dict[str, Json])
    cells: TableRows = field(default_factory=list[dict[str, Json]])
    missing: list[str] = field(default_factory=list[str])
    problems: list[str] = field(default_factory=list[str])
    checks: list[claims.Check] = field(default_factory=list[claims.Check])

    def numbers(self) -> dict[str, Json]:
        """Return the contents of numbers.json, NaN and infinities as None."""
        differ = [check for check in self.checks if not check.agrees]
        checks = {
            "printed_numbers": len(self.checks),
            "agree": len(self.checks) - len(differ),
            "differ": differ,
        }
        return {field.name: plain(getattr(self, field.name)) for field in fields(self)} | {
            "checks": plain(checks)
        }


def reproduce(root: Path, how: Reproducing | None = None) -> Reproduction:
    """Return all that the records in a folder allow; writes nothing.

    Missing files and everything wrong with the others are listed, not raised. Raises LogError only when no
    file of the records could be used.
    """
    how = how or Reproducing()
    if not root.is_dir():
        raise LogError(f"{root} is not a folder with the published records: {GET}")
    result = Reproduction()
    files = [series.file for series in (*records.SERIES, records.REASONING)]
    files += [file for file, _, _ in records.matrix_files()]
    result.missing = [file for file in (*files, records.REFERENCE) if not (root / file).is_file()]
    samples, cells = _read(root, how, result)  # and the saturation tables, meanwhile
    if not samples and not cells:
        wrong = f"; {len(result.problems)} problems, first: {result.problems[0]}" if result.problems else ""
        raise LogError(
            f"{root} holds none of the published records that can be used "
            f"(wanted files such as {files[0]} or {files[-1]}){wrong}; {GET}"
        )
    fill_pairs([ArmPair({}, cells)], result)
    result.headline |= claims.from_saturation(result.tables, result.figures)
    result.headline |= claims.from_matrix(result.tables.get("table3", []), result.cells)
    for name, rows in result.tables.items():
        result.checks += claims.check(name, rows)
    result.checks += claims.check_headline(result.headline)
    checks, problems = check_reference(root, samples)
    result.checks += checks
    result.problems += problems
    return result


@contextmanager
def workers(processes: int) -> Generator[ProcessPoolExecutor]:
    """Return a process pool that drops queued work when interrupted."""
    with ProcessPoolExecutor(processes, get_context(METHOD)) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def write(result: Reproduction, out: Path) -> list[Path]:
    """Write numbers.json, every table as LaTeX and Markdown, and the page on differences."""
    forms: tuple[Format, ...] = ("latex", "markdown")
    out.mkdir(parents=True, exist_ok=True)
    numbers = result.numbers()
    files = {"numbers.json": json.dumps(numbers, indent=1, ensure_ascii=False, allow_nan=False) + "\n"}
    tables = dict(result.tables)
    if "table4" in tables:
        tables["amortisation"] = tables["table4"]
    for name, rows in tables.items():
        for table in looks.printed_tables(name, rows):
            files |= dict(file_of(table, form) for form in forms)
    files["differences.md"] = differences(numbers)
    for name, content in files.items():
        write_text(out / name, content)
    return [out / name for name in files]


def _read(
    root: Path, how: Reproducing, result: Reproduction
) -> tuple[dict[str, ArmSample], list[MatrixCell]]:
    """Return all files read and matrix cells measured, in parallel where possible.

    What the saturation records give is filled in while other processes are still at the matrix.
    """
    series = [known for known in (*records.SERIES, records.REASONING) if (root / known.file).is_file()]
    matrices = [known for known in records.matrix_files() if (root / known[0]).is_file()]
    processes = how.processes or min(os.cpu_count() or 1, 8)
    # The largest file first, so that no process is left alone with it at the end.
    series.sort(key=lambda known: -(root / known.file).stat().st_size)
    cells: list[MatrixCell] = []
    with workers(processes) as pool:
        read = {known: pool.submit(load_series, root, known) for known in series}
        measured = [pool.submit(_measure, root, *known, how) for known in matrices]
        samples: dict[str, ArmSample] = {}
        for known, loading in read.items():
            parts, problems = loading.result()
            result.problems += problems
            if (sample := parts.get(f"{known.task}/{records.SC}")) is not None:
                samples[known.name] = sample
        _saturation(result, samples, how)
        for measuring in measured:
            some, problems = measuring.result()
            cells += some
            result.problems += problems
    labels = list(records.BENCHMARKS.values())
    return samples, sorted(cells, key=lambda cell: labels.index(cell.about))


def _measure(
    root: Path, file: str, model: str, tasks: Sequence[str], how: Reproducing
) -> tuple[list[MatrixCell], list[str]]:
    parts, problems = load_matrix(root, file, model, tasks)
    cells: list[MatrixCell] = []
    order = list(records.BENCHMARKS)
    for task in tasks:
        about = records.BENCHMARKS[task]
        rng = np.random.default_rng([how.seed, 3, order.index(task), records.MATRIX_MODELS.index(model)])
        arms = [parts.get(f"{task}/{method}") for method in (records.SC, records.PT)]
        if arms[0] is not None and arms[1] is not None:
            cells.append(measure(records.MODELS[model], about, (arms[0], arms[1]), how.replicates, rng))
    return cells, problems


def _saturation(result: Reproduction, samples: Mapping[str, ArmSample], how: Reproducing) -> None:
    known = {
        series: _entry(series, samples[series.name])
        for series in (*records.SERIES, records.REASONING)
        if series.name in samples
    }
    thinking = known.pop(records.REASONING, None)
    entries = list(known.values())
    gsm8k = [entry for entry in entries if entry.task == TABLE_2]
    own = dict.fromkeys(("table2", "table10", "table11"), gsm8k) | {"table4": entries}
    own["table1"] = [known[series] for series in records.SERIES[:1] if series in known]
    fill_single(result, own | {"table9": [thinking] if thinking else []}, how)


def fill_single(result: Reproduction, entries: Mapping[str, Sequence[SeriesEntry]], how: Reproducing) -> None:
    """Fill the tables of single arms, each from its own entries."""
    drawn = {"replicates": how.replicates, "seed": how.seed}
    makers: dict[str, Callable[[ArmSample], TableRows]] = {
        "table1": saturation.table1,
        "table2": saturation.table2,
        "table4": partial(saturation.table4, **drawn),
        "table9": saturation.table9,
        "table10": partial(saturation.table10, seed=how.seed),
        "table11": saturation.table11,
    }
    result.tables |= {
        name: rows_of(entries[name], make) for name, make in makers.items() if entries.get(name)
    }
    if own := entries.get("table2"):
        result.figures["figure2"] = rows_of(own, saturation.figure2)
        result.figures["saturation"] = rows_of(own, saturation.observed_rows)
    appendix = rows_of(entries.get("table9", ()), partial(saturation.reasoning, **drawn))
    if appendix:
        result.headline["reasoning"] = appendix[0]
    if len(appendix) > 1:
        result.headline["reasoning_models"] = list(appendix)


def _entry(series: records.Series, sample: ArmSample) -> SeriesEntry:
    about = records.BENCHMARKS[series.task]
    return SeriesEntry(
        records.MODELS[series.model], f"{about.label} ({about.domain})", sample, {"paths": sample.votes.k}
    )


@frozen
class ArmPair:
    """One arm against another on their shared models and tasks; ``about`` labels their rows.

    The paper's own two arms say nothing: there are no others.
    """

    about: Mapping[str, Json]
    cells: Sequence[MatrixCell]

    @property
    def name(self) -> str:
        """Both arms in one text."""
        return f"{self.about['arm']} against {self.about['against']}"


def fill_pairs(pairs: Sequence[ArmPair], result: Reproduction) -> None:
    """Fill the tables of arm comparisons, one by one."""
    known = [pair for pair in pairs if pair.cells]
    for pair in known:
        about, cells = dict(pair.about), pair.cells
        result.cells += [cell.to_dict() | about for cell in cells]
        for kind, name, make in (
            (result.tables, "table3", matrix.table3),
            (result.tables, "table8", matrix.table8),
            (result.figures, "figure3", matrix.figure3),
            (result.figures, "templates", matrix.templates),
        ):
            kind.setdefault(name, []).extend(row | about for row in make(cells))
    if known:
        result.headline |= matrix.headline(known[0].cells)
    if len(known) > 1:
        result.headline["comparisons"] = {pair.name: matrix.headline(pair.cells) for pair in known}
