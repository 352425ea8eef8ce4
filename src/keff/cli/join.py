"""Align records of several branches by question, in one.

keff matches questions by id, and says which it leaves out.

Example: keff join small.jsonl large.jsonl -o both.jsonl
"""

from __future__ import annotations

import json as jsons
from collections.abc import Sequence
from pathlib import Path

from keff.cli import _options as o
from keff.cli._console import note, print_json, warn_all
from keff.cli._groups import LogOptions
from keff.files import draft_of
from keff.reading.join import align, joined_rows
from keff.reading.open import Record, open_record
from keff.reading.several import open_records, pool_notes, side_by_side
from keff.reading.transfer import write_questions


@o.grouped
def command(
    paths: o.Paths,
    out: o.JoinOut,
    pool: o.Pool = False,
    *,
    log: LogOptions,
    trim: o.Trim = None,
    json: o.Json = False,
) -> None:
    """Join the records."""
    opening = log.opening(texts=pool, trim=trim)
    if pool:
        _pool([record for path in paths for record in open_records(path, opening)], out, json=json)
        return
    group = align([open_record(path, opening) for path in paths])
    warn_all(group.notes)
    with draft_of(out) as draft, draft.open("w", encoding="utf-8") as file:
        file.writelines(jsons.dumps(row, ensure_ascii=False) + "\n" for row in joined_rows(group))
    if json:
        paths_of = {branch.name: branch.votes.k for branch in group.branches}
        print_json({"out": str(out), "n": group.n, "branches": paths_of, "warnings": group.notes})
        return
    shown = ", ".join(f"{branch.name} ({branch.votes.k} paths)" for branch in group.branches)
    note(f"{out}: {group.n} questions, {shown}")


def _pool(records: Sequence[Record], out: Path, *, json: bool) -> None:
    questions, notes = side_by_side(records), pool_notes(records)
    warn_all(notes)
    write_questions(questions, records[0].info, records[0].ballot.reading, out)
    paths = sum(len(question.answers) for question in questions)
    if json:
        print_json({"out": str(out), "n": len(questions), "paths": paths, "warnings": notes})
        return
    note(f"{out}: {len(questions)} questions, {paths} paths")
