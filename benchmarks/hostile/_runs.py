"""Run folders that were damaged after they were closed, or whose process was killed and then damaged."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from benchmarks.hostile._tally import Tally
from benchmarks.logs.log_bases import draws, keff_jsonl, unsealed
from keff.errors import KeffError
from keff.log import Question
from keff.logs.run import RunLog
from keff.reading.transfer import import_log
from keff.sampling.store import Run

Damage = Callable[[Path, random.Random], None]
MANIFEST, DATABASE = "manifest.json", "paths.sqlite"


def flip_page(run: Path, rng: random.Random) -> None:
    """Flip a bit of the database."""
    _flip(run / DATABASE, rng)


def flip_manifest(run: Path, rng: random.Random) -> None:
    """Flip a bit of the manifest."""
    _flip(run / MANIFEST, rng)


def _flip(file: Path, rng: random.Random) -> None:
    data = bytearray(file.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    file.write_bytes(data)


def cut_short(run: Path, rng: random.Random) -> None:
    """Leave the first part of the database."""
    data = (run / DATABASE).read_bytes()
    (run / DATABASE).write_bytes(data[: rng.randrange(len(data))])


def delete_half(run: Path, rng: random.Random) -> None:
    """Delete every second row of a table."""
    table = rng.choice(("items", "paths", "scores"))
    with closing(sqlite3.connect(run / DATABASE)) as database, database:
        database.execute("drop trigger paths_stay")
        database.execute(f"delete from {table} where rowid % 2 = ?", (rng.randrange(2),))


def change_schema(run: Path, rng: random.Random) -> None:
    """Write another schema number into the manifest."""
    manifest = json.loads((run / MANIFEST).read_text())
    manifest["schema_version"] = rng.choice((-1, 0, 2, 99))
    (run / MANIFEST).write_text(json.dumps(manifest))


DAMAGES: tuple[Damage, ...] = (
    *(flip_page,) * 6,
    *(flip_manifest,) * 2,
    cut_short,
    delete_half,
    change_schema,
)


def _read(run: Path) -> list[Question]:
    log = RunLog()
    if reason := log.refuses(run):
        raise KeffError(reason)
    log.info(run)
    return list(log.questions(run, texts=True))


def _resume(run: Path) -> None:
    """Ask a run what it still owes, as sampling does before it draws."""
    shares = [(0, 4), (1, 2)]
    with Run.edit(run) as held:
        rows = list(held.item_rows())
        names = [row[0] for row in rows]
        held.complete_ids(rows, shares)
        held.owed(names, shares)
        held.stale("1")
        for name in names:
            held.kept(name)
            held.ratings(name)


def damaged_runs(scratch: Path, inputs: int, seed: int) -> Tally:
    """Damage runs in two ways: closed ones are read as they were or refused; killed ones never crash."""
    tally, folder = Tally("damaged runs"), scratch / "runs"
    folder.mkdir(parents=True)
    closed, killed = folder / "closed", folder / "killed"
    import_log(keff_jsonl(folder, draws()).path, closed)
    shutil.copytree(closed, killed)
    unsealed(killed)
    whole = repr(_read(closed))
    for number in range(inputs):
        rng = random.Random(f"{seed}|run|{number}")
        damage, sealed = rng.choice(DAMAGES), rng.random() < 0.6
        run = folder / f"run {number}"
        shutil.copytree(closed if sealed else killed, run)
        damage(run, rng)
        where = f"seed {seed}, {'closed' if sealed else 'killed'} run {number}, {damage.__name__}"
        tally.inputs += 1
        try:
            said = repr(_read(run))
            _resume(run)
        except KeffError as error:
            tally.outcomes["refused"] += 1
            tally.check_text(where, str(error))
            if "\n" in str(error) or run.name not in str(error):
                tally.fail(f"{where}: {str(error)[:200]!r}")
        except Exception as error:
            tally.fail(f"{where}: {type(error).__name__}: {str(error)[:200]}")
        else:
            same = said == whole
            tally.outcomes["read as it was" if same else "killed, and read as it is"] += 1
            if sealed and not same:
                tally.fail(f"{where}: read, and not as it was")
        shutil.rmtree(run)
    return tally
