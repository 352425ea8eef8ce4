"""Details of LightEval (details_TASK_TIME.parquet): one row per question, all generations in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from keff.errors import LogError
from keff.log import LogInfo, NoteSink, Question, ignore
from keff.logs.parquet import columns_of, is_parquet, rows_of
from keff.logs.parts.tabled import once_each, question_or_scores
from keff.logs.parts.values import gold_of, inner, known_task
from keff.narrow import Fields, is_array, items

# The task stands in the name of the file alone: no row of details names it.
NAME = re.compile(r"details_(.+?)_\d{4}-\d{2}-\d{2}T[\d.:-]+\.parquet")
# Columns of details as newer and as older versions of LightEval write them.
NEW = ("doc", "model_response")
OLD = ("predictions", "gold", "full_prompt")


class LightEval:
    """Reader of LightEval's details, as written with ``--save-details``, older and newer columns.

    The generations of a row are its paths, read as completions. LightEval scores a question once for all of
    them, so correctness is found again: by the task of keff that the file names, else by ``--answer-space``.
    """

    name = "lighteval"

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        if not is_parquet(path):
            return "not a Parquet file"
        names = set(columns_of(path))
        if set(NEW) <= names or set(OLD) <= names:
            return None
        return f"it has no columns {' and '.join(NEW)}"

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        named = NAME.fullmatch(path.name)
        parts = [part for part in re.split(r"[|:]", named[1]) if not part.isdigit()] if named else []
        task = next((task for part in parts if (task := known_task(part))), None)
        # details/ORG/MODEL/TIME/details_...: the folders above say which model it was.
        folder = path.parent.parent
        return LogInfo(task, model=f"{folder.parent.name}/{folder.name}" if folder.parent.name else None)

    def questions(self, path: Path, *, texts: bool = False, tell: NoteSink = ignore) -> Iterator[Question]:
        """Yield the questions one by one; see ``Log.questions``."""
        del tell
        names = columns_of(path)
        wanted = [name for name in (*NEW, *OLD, "example") if name in names]
        return once_each(
            (where, _question(where, number, row, texts=texts))
            for number, (where, row) in enumerate(rows_of(path, wanted))
        )


def _question(where: str, number: int, row: Fields, *, texts: bool) -> Question:
    doc, response = inner(row, "doc"), inner(row, "model_response")
    generations: object = response.get("text_post_processed") or response.get("text")
    prompt, gold = doc.get("query"), _right_choices(doc)
    if not doc:
        generations, prompt, gold = row.get("predictions"), row.get("full_prompt"), row.get("gold")
    if not is_array(generations) or not all(isinstance(text, str | None) for text in generations):
        raise LogError(f"{where}: it holds no generations: a vote needs a generative task")
    golds = gold_of(gold)
    only = items(golds)
    asked = {"id": str(doc.get("id") or number), "question": prompt, "all_texts": generations}
    gold = only[0] if len(only) == 1 else golds
    return question_or_scores(where, {**asked, "gold_answer": gold}, texts=texts)


def _right_choices(doc: Fields) -> object:
    """Return the choices marked as right."""
    known, index = items(doc.get("choices")), doc.get("gold_index")
    places = items(index) or [index]
    return [known[place] for place in places if isinstance(place, int) and 0 <= place < len(known)]


log = LightEval
