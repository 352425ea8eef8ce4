"""Results of the Berkeley Function Calling Leaderboard: one answer per line, and the score file beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from keff.errors import LogError
from keff.log import LogInfo, NoteSink, ignore
from keff.logs.parts.field_table import FieldReader, FieldTable, number_at
from keff.logs.parts.lines import Row, json_lines
from keff.logs.parts.values import spoken

SUFFIX = "_result.json"


class Bfcl(FieldReader):
    """Reader of ``result/MODEL/.../BFCL_*_result.json``, as bfcl-eval writes it.

    One file is one run, with one path per question: put repeats side by side with ``keff join --pool``.
    Correctness is that of the score file of the same name under ``score`` instead of ``result``, which lists
    what failed; without it there is none. Calls that failed to be made are answers like any other.
    """

    name = "bfcl"
    table = FieldTable(
        signs=("id", "result"),
        fields={
            "id": "id",
            "answer": lambda row: spoken(row.get("result")),
            "correct": "correct",
            "tokens": number_at("output_token_count"),
            "prompt_tokens": number_at("input_token_count"),
            "seconds": number_at("latency"),
        },
        own="id",
    )

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata: the model, from the name of the results folder."""
        folders = path.resolve().parts[:-1]
        known = folders.index("result") + 1 if "result" in folders else len(folders)
        return LogInfo(model=folders[known] if known < len(folders) else None)

    def rows_in(self, path: Path, tell: NoteSink = ignore) -> Iterator[tuple[str, Row]]:
        """Yield (place, row) of every answer, with its verdict."""
        failed = _wrong_ids(path)
        for where, row in super().rows_in(path, tell):
            if "result" not in row:
                raise LogError(f"{where}: it has no result")
            yield where, row if failed is None else row | {"correct": int(row.get("id") not in failed)}


def _wrong_ids(path: Path) -> set[object] | None:
    """Return the ids of failed answers from the score file; None without one for these results."""
    *above, name = path.resolve().parts
    if "result" not in above or not name.endswith(SUFFIX):
        return None
    place = len(above) - 1 - above[::-1].index("result")
    folder = Path(*above[:place], "score", *above[place + 1 :])
    score = folder / f"{name.removesuffix(SUFFIX)}_score.json"
    if not score.is_file():
        return None
    rows = [row for _, row in json_lines(score)]
    if not rows or "total_count" not in rows[0]:
        raise LogError(f"{score}: its first line has no total_count: is it a score file of bfcl-eval?")
    return {row.get("id") for row in rows[1:] if row.get("valid") is not True}


log = Bfcl
