"""Questions from tables: rows per question with numbered columns or lists, or rows per path."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import compress, groupby, islice
from pathlib import Path
from types import NoneType
from typing import Any

from keff.errors import LogError
from keff.log import LISTED, NAMED, LogInfo, NoteSink, Question, ignore, path_text
from keff.logs.parts.attempts import Attempts
from keff.logs.parts.columns import JUDGES, OBVIOUS, Layout, is_called, parse_columns
from keff.logs.parts.columns import LISTS as LIST_OF
from keff.logs.parts.values import (
    completion_text,
    conversation_text,
    converted,
    count,
    gold_of,
    grade,
    is_missing,
    is_nan,
    is_structured,
    name_of,
    optional_text,
    rating,
    real,
    seconds,
    short,
    slot,
    truth,
)
from keff.narrow import Fields, Object, is_array, is_object, items
from keff.records import Note

LISTS = tuple(LIST_OF.values())
KNOWN = {"id", "question", "gold_answer", "cluster", "task", "answer_space", "model", *LISTS}

# Field of a question with a value for each path -> its list, and how a value of it is read.
PER_PATH: Mapping[str, tuple[str, Callable[[object], Any]]] = {
    "keys": ("all_keys", optional_text),
    "correct": ("all_correct", truth),
    "scores": ("all_scores", grade),
    "tokens": ("all_tokens", count),
    "prompt_tokens": ("all_prompt_tokens", count),
    "cached_tokens": ("all_cached_tokens", count),
    "seconds": ("all_seconds", seconds),
    "confidences": ("all_confidences", rating),
    "slots": ("slots", slot),
    "branches": ("branches", name_of),
    "rules": ("all_rules", str),
    "truncated": ("all_truncated", truth),
    "texts": ("all_texts", completion_text),
}

Row = Fields
# Reads the rows of a table, each with its place, from the start.
Rows = Callable[[], Iterable[tuple[str, Row]]]


def question_of(where: str, row: Row, *, texts: bool = False, part: str = "") -> Question:
    """Return a Question of a ``part`` from one row with lists.

    Raises LogError that names ``where`` and the field.
    """
    graded = row.get("all_scores")
    if row.get("all_answers") is None and is_array(graded):  # scores alone: nothing to vote on
        bare = {**row, "all_answers": [None] * len(graded)}
        return replace(question_of(where, bare, texts=texts, part=part), form="scores")
    missing = [name for name in ("id", "all_answers") if row.get(name) is None]
    if missing:
        raise LogError(f"{where}: lacks {' and '.join(missing)} (it has {', '.join(row)})")
    row, unjudged = _without_unjudged(row)
    lists = _lists(where, row)
    answers = lists["all_answers"]
    given: dict[str, Any] = {
        field: converted(where, name, lists[name], convert)
        for field, (name, convert) in PER_PATH.items()
        if name in lists and (texts or field != "texts")
    }
    unusual = answers if not set(map(type, answers)) <= {str, NoneType} else ()
    return Question(
        id=name_at(where, "id", row["id"]),
        answers=converted(where, "all_answers", answers, optional_text),
        gold=gold_of(row.get("gold_answer")),
        cluster="" if is_missing(row.get("cluster")) else name_at(where, "cluster", row["cluster"]),
        question=optional_text(row.get("question")),
        meta={name.replace(LISTED, NAMED): value for name, value in row.items() if name not in KNOWN},
        nan=sum(map(is_nan, unusual)),
        unjudged=unjudged,
        structured=any(map(is_structured, unusual)),
        part=part,
        **given,
    )


def model_of(row: Row) -> str:
    """Return the model that a row names, which is the part of the log it belongs to; "" for none."""
    return optional_text(row.get("model")) or ""


def unpacked(row: Object) -> Object:
    """Return a row with the fields that an export packed into ``meta`` restored.

    A column of the same name that others filled stays what it is.
    """
    try:
        packed: object = json.loads(str(row.get("meta") or "{}"))
    except (TypeError, ValueError):
        return row
    if not is_object(packed):
        return row
    return {name: value for name, value in row.items() if name != "meta"} | packed


def question_or_scores(where: str, row: Object, *, texts: bool, part: str = "") -> Question:
    """Return a Question; where answers are missing, from texts or from scores alone."""
    if row.get("all_answers") is not None or row.get("all_scores") is not None:
        return question_of(where, row, texts=texts, part=part)
    if row.get("all_texts") is not None:
        complete = question_of(where, row | {"all_answers": row["all_texts"]}, texts=texts, part=part)
        return replace(complete, form="completions")
    right = row.get("all_correct")
    if not is_array(right):
        raise LogError(f"{where}: lacks the answers (it has {', '.join(row)})")
    bare = row | {"all_answers": [None] * len(right)}
    return replace(question_of(where, bare, texts=texts, part=part), form="scores")


def once_each(questions: Iterable[tuple[str, Question]]) -> Iterator[Question]:
    """Yield questions, checking that ids are unique within a part; LogError names the line."""
    seen: set[tuple[str, str]] = set()
    for where, question in questions:
        if (question.part, question.id) in seen:
            raise LogError(f"{where}: duplicate id {question.id!r}")
        seen.add((question.part, question.id))
        yield question


def said_by(row: Row) -> LogInfo:
    """Return the log's metadata stated in a row: task, answer space, model."""
    space: object = optional_text(row.get("answer_space"))
    return LogInfo(optional_text(row.get("task")), space, optional_text(row.get("model")))


def first_of(rows: Iterable[tuple[str, Row]]) -> Object:
    """Return the first row; an empty one where there is none."""
    return next((dict(row) for _, row in rows), Object())


def _without_unjudged(row: Row) -> tuple[Row, int]:
    """Return a row without the paths that have no verdict where others have one, and how many these are."""
    verdicts = items(row.get("all_correct"))
    judged = [not is_missing(verdict) for verdict in verdicts]
    if all(judged):
        return row, 0
    if not any(judged) and not all(map(is_missing, items(row.get("all_answers")))):
        return {name: value for name, value in row.items() if name != "all_correct"}, 0
    lists = {
        name: list(compress(value, judged))
        for name, value in row.items()
        if name in LISTS or name.startswith((NAMED, LISTED))
        if is_array(value) and len(value) == len(judged)
    }
    return {**row, **lists}, judged.count(False)


def _lists(where: str, row: Row) -> dict[str, tuple[object, ...]]:
    result: dict[str, tuple[object, ...]] = {}
    for name in LISTS:  # of which the answers are the first
        given = row.get(name)
        if given is None:
            continue
        if not is_array(given):
            raise LogError(f"{where}: {name} must be a list")
        # Only lists can be conversations: what few logs hold.
        held = list in set(map(type, given)) and name in ("all_answers", "all_texts")
        values = tuple(map(conversation_text, given) if held else given)
        if result and len(values) != len(result["all_answers"]):
            raise LogError(
                f"{where}: {name} has {len(values)} entries for {len(result['all_answers'])} answers"
            )
        result[name] = values
    return result


def name_at(where: str, what: str, value: object) -> str:
    """Return a cell as a question's id or name.

    Raises:
        LogError: it cannot be one; the sentence names where it stands.
    """
    try:
        return name_of(value)
    except ValueError:
        reason = (
            "a row has no id"
            if is_missing(value) and what == "id"
            else f"{what} is {short(value)}, not a name"
        )
        raise LogError(f"{where}: {reason}") from None


class TableLog:
    """Base class of table readers, which read from the start whenever rows are needed.

    Which column means what is in ``keff.logs.parts.columns``: named by the option ``columns``
    (id=qid,answer=prediction), or known by an obvious name.
    """

    def __init__(self, columns: str | Mapping[str, str] | None = None) -> None:
        self.columns = parse_columns(columns) if isinstance(columns, str) else columns

    def layout(self, path: Path) -> Layout | str:
        """Return the columns by meaning, or why the file is no table of answers."""
        raise NotImplementedError

    def rows(self, path: Path, layout: Layout, tell: NoteSink, *, texts: bool) -> Iterator[tuple[str, Row]]:
        """Yield (place, row) of every row; without ``texts`` the texts may be left out."""
        raise NotImplementedError

    def laid_out(self, path: Path) -> Layout:
        """Return the columns by meaning; raises LogError where the file is no table of answers."""
        layout = self.layout(path)
        if isinstance(layout, str):
            raise LogError(f"{path_text(path)}: {layout}")
        return layout

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        layout = self.laid_out(path)
        row = first_of(self.rows(path, layout, ignore, texts=False))
        return said_by(row | {"model": row.get(layout.single.get("model", "model"))})

    def doubts(self, path: Path) -> list[Note]:
        """Return notes on signs of damage in a file of which no row was left out."""
        del path
        return []

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        layout = self.layout(path)
        return layout if isinstance(layout, str) else None

    def questions(self, path: Path, *, texts: bool = False, tell: NoteSink = ignore) -> Iterator[Question]:
        """Yield the questions one by one; see ``Log.questions``."""
        layout = self.laid_out(path)
        for note in layout.notes:
            tell(note)
        heard: list[Note] = []
        needed = texts or not {"answer", "correct"} & {*layout.single, *layout.numbered}
        yield from tabled(
            lambda: self.rows(path, layout, heard.append, texts=needed), layout, texts=texts, tell=tell
        )
        # Passes over the file may be several: what they leave out is one thing.
        for note in dict.fromkeys(heard or self.doubts(path)):
            tell(note)


def tabled(rows: Rows, layout: Layout, *, texts: bool = False, tell: NoteSink = ignore) -> Iterator[Question]:
    """Yield Questions from a table's rows.

    One row per question where a word has numbered columns or lists, else one row per path.
    """
    head = [row for _, row in islice(rows(), 2)]
    first = head[0] if head else Object()
    # Where a column numbers the paths, one list as an answer is a structured answer of one path.
    several = [] if "path" in layout.single else [word for word in layout.single if word in LIST_OF]
    listed = [word for word in several if _is_list_of_paths(first.get(layout.single[word]))]
    if layout.numbered or {"answer", "correct", "text", "score"} & set(listed):
        alone = [layout.single[word] for word in several if word not in (*listed, "model")]
        if known := [name for name in alone if not is_missing(first.get(name))]:
            text = f"{', '.join(known)}: keff cannot read one value for all paths of a question: write a list"
            tell(Note("one_for_all", text))
        return once_each(
            (where, question_or_scores(where, wide, texts=texts, part=model_of(wide)))
            for where, row in rows()
            for wide in [_question_row(row, layout, listed)]
        )
    return _questions_of_path_rows(rows, head, layout, texts=texts, tell=tell)


def _is_list_of_paths(value: object) -> bool:
    return is_array(value) and conversation_text(value) is value


def _question_row(row: Row, layout: Layout, listed: Iterable[str]) -> Object:
    """Return a one-question row under the JSONL's field names."""
    lists = {LIST_OF[word]: [row.get(name) for name in names] for word, names in layout.numbered.items()}
    # A path that was neither answered nor scored was not drawn.
    while len(lists.get("all_correct", ())) > 1 and all(is_missing(values[-1]) for values in lists.values()):
        lists = {name: values[:-1] for name, values in lists.items()}
    lists |= {LIST_OF[word]: row.get(layout.single[word]) for word in listed}
    return _about(row, layout) | lists


def _about(row: Row, layout: Layout) -> Object:
    """Return a row's question-level fields, and its fields without a known meaning."""
    single = {
        word: row.get(layout.single[word])
        for word in ("id", "gold_answer", "cluster", "question", "model")
        if word in layout.single
    }
    meant = layout.used | KNOWN
    return {name: value for name, value in row.items() if name not in meant} | single


def _questions_of_path_rows(
    rows: Rows, head: Sequence[Row], layout: Layout, *, texts: bool, tell: NoteSink
) -> Iterator[Question]:
    """Yield Questions from rows of one path each, and say at the end where one id has several questions."""
    first = head[0] if head else Object()
    layout = _with_prompts(rows, first, _without_one_judge(rows, layout), tell)
    number = differ = 0
    asked = layout.single.get("question", "")
    # Of several templates each may state the question in its own words.
    if "slot" in layout.single or asked == layout.single["id"]:
        asked = ""
    finer = _named_by(SUBSETS if {"path", "slot"} & layout.single.keys() else SUBSETS | FINER, first, layout)
    attempts = Attempts.of(first, layout)
    for group in _groups(rows, head, layout):
        members = attempts.last(group)
        number += 1
        _refuse_finer(members, finer, layout)
        differ += bool(asked) and len({str(row.get(asked)).strip() for _, row in members}) > 1
        yield _path_rows(members, layout, texts=texts)
    attempts.say(tell)
    if differ:
        text = (
            f"{differ} of {number} ids stand for several questions ({asked} differs between their rows), and "
            "keff counts their answers together. Name the column that tells questions apart, with "
            f"--columns id=NAME, or say that {asked} names a prompt or judge, with --columns slot={asked}"
        )
        tell(Note("several_questions", text))


def _without_one_judge(rows: Rows, layout: Layout) -> Layout:
    """Return the layout without the column of a judge that is the same for all rows of every question."""
    column = layout.single.get("slot", "")
    if column.strip().lower() not in JUDGES:
        return layout
    first: dict[str, object] = {}
    for _, row in rows():
        if first.setdefault(str(row.get(layout.single["id"])), row.get(column)) != row.get(column):
            return layout
    return replace(layout, single={word: name for word, name in layout.single.items() if word != "slot"})


# So many rows show whether the texts of a column recur with other ids.
SHOWN = 1000


def _with_prompts(rows: Rows, first: Row, layout: Layout, tell: NoteSink) -> Layout:
    """Return the layout with a column that questions are known by as slots, where its texts are prompts.

    They are where rows of one id differ in it, and each text recurs with other ids.
    """
    if "slot" in layout.single:
        return layout
    ids, asked = layout.single["id"], layout.single.get("question", "")
    names = {asked, *(name for name in first if name.strip().lower() in OBVIOUS["question"])} - {ids, ""}

    def pairs(column: str, some: Iterable[tuple[str, Row]]) -> set[tuple[str, str]]:
        """Return the pairs of an id and a text."""
        return {(str(row.get(ids)), str(row.get(column)).strip()) for _, row in some}

    head = [*islice(rows(), SHOWN)] if names else []
    for column in sorted(names):
        shown = pairs(column, head)
        if 2 * len({text for _, text in shown}) > len(shown):
            continue
        found = pairs(column, rows())
        recur = Counter(text for _, text in found)
        if len(found) == len({name for name, _ in found}) or min(recur.values()) < 2:
            continue
        text = (
            f"rows of one id differ in {column}, and its {len(recur)} texts recur with other ids, so keff "
            "takes them for prompts, each a source of paths"
        )
        tell(Note("prompts", text))
        single = {word: name for word, name in layout.single.items() if name != column}
        return replace(layout, single=single | {"slot": column})
    return layout


# Words in the names of columns whose rows may be parts of one path, or its repeats: both look the same.
_PARTS = (
    "rollout trajectory span turn message step round iteration attempt retry retries metric scorer evaluator"
    " criterion criteria rubric dimension aspect filter checkpoint language lang locale"
)
FINER = frozenset(_PARTS.split())
# Words in the names of columns that are the same for all paths of a question: where they differ, ids restart.
SUBSETS = frozenset(("subset", "subject", "category", "topic", "domain", "split", "dataset", "benchmark"))
# Of their values: what is longer is what a path says.
LONGEST_NAME = 40


def _named_by(words: AbstractSet[str], row: Row, layout: Layout) -> list[str]:
    """Return the columns of no known meaning that have one of the words in their names.

    These hold a number or a name; an object or a long text is what a path says.
    """
    return [
        name
        for name, value in row.items()
        if name not in layout.used
        and is_called(name, words)
        and not isinstance(value, dict | list)
        and len(str(value)) <= LONGEST_NAME
    ]


def _refuse_finer(members: list[tuple[str, Row]], finer: Sequence[str], layout: Layout) -> None:
    """Raise LogError where rows of one id and model differ in a column that may be finer than a path.

    Where they differ in the set that a question is of, they are several questions.
    """
    model = layout.single.get("model", "")
    for name in finer:
        first: dict[str, object] = {}
        for where, row in members:
            if first.setdefault(str(row.get(model)), row.get(name)) != row.get(name):
                if is_called(name, SUBSETS):
                    way = f"give each question an id of its own, such as its {name} and id together"
                else:
                    way = f"say which column numbers the paths of a question, such as --columns path={name}"
                    way = f"{way}, or keep one row for each path"
                raise LogError(
                    f"{where}: rows of the id {row.get(layout.single['id'])!r} differ in {name}: {way}"
                )


def _groups(rows: Rows, head: Sequence[Row], layout: Layout) -> Iterator[list[tuple[str, Row]]]:
    """Yield the rows of each id.

    Where they do not stand together, as in repeated runs, the table is gathered in memory.
    """
    column = layout.single["id"]
    # Of a table of repeats whose rows stand together the first two are of one question: no need to look on.
    named = {"model", "slot", "path"} & layout.single.keys()
    first = {str(row.get(column)) for row in head}
    if (named or len(first) > 1) and not _together(rows, column):
        groups: dict[str, list[tuple[str, Row]]] = {}
        for where, row in rows():
            groups.setdefault(name_at(where, "id", row.get(column)), []).append((where, row))
        yield from groups.values()
        return
    seen: dict[str, Row | None] = {}
    for name, group in groupby(rows(), key=lambda pair: name_at(pair[0], "id", pair[1].get(column))):
        members = list(group)
        if name in seen:
            other = _told_apart(seen[name], [row for _, row in members], layout)
            apart = f", with another {other}. If that tells questions apart, give each its own id; else"
            raise LogError(
                f"{members[0][0]}: the id {name!r} came before{apart if other else ':'} sort the rows by id, "
                "or name the column that numbers the paths of a question (--columns path=...)"
            )
        seen[name] = members[0][1] if len(seen) < SHOWN else None
        yield members


def _told_apart(before: Row | None, rows: Sequence[Row], layout: Layout) -> str:
    """Return the column in which an id's rows are alike, and unlike a row that came before.

    The question and the gold answer are looked at first. Empty where there is none.
    """
    known = [layout.single.get(word, "") for word in ("question", "gold_answer")]
    others = [name for name in before or () if name not in layout.used]
    return next(
        (
            name
            for name in filter(None, (*known, *others))
            if before
            and before.get(name) != rows[0].get(name)
            and len({str(row.get(name)) for row in rows}) == 1
        ),
        "",
    )


def _together(rows: Rows, column: str) -> bool:
    seen: set[str] = set()
    for name, _ in groupby(rows(), key=lambda pair: str(pair[1].get(column))):
        if name in seen:
            return False
        seen.add(name)
    return True


def _path_rows(members: list[tuple[str, Row]], layout: Layout, *, texts: bool) -> Question:
    """Return the question made of the rows of one id; raises LogError where two are the same path."""
    where, first = members[0]
    single = layout.single
    apart = [word for word in ("model", "slot", "path") if word in single]
    if "path" in single:
        places: dict[tuple[str, ...], str] = {}
        for place, member in members:
            mark = tuple(str(member.get(single[word])) for word in apart)
            number = member.get(single["path"])
            if isinstance(number, float) and math.isinf(number):
                raise LogError(f"{place}: path must be a finite number, not {number}")
            if mark in places:
                named = ", ".join(f"{word} {value}" for word, value in zip(apart, mark, strict=True))
                raise LogError(
                    f"{place}: {named} of the id {first.get(single['id'])!r} came before ({places[mark]})"
                )
            places[mark] = place
        members = sorted(members, key=lambda pair: _order(pair[1].get(single["path"])))
    for word in ("gold_answer", "cluster"):
        _same(members, word, single.get(word))
    row = _about(first, layout)
    rated = [name for name in row if name.startswith((NAMED, LISTED))]
    row |= {name: [member.get(name) for _, member in members] for name in rated}
    # A list of what paths are read by is kept where it is empty: their number is in it.
    first_word = next((word for word in ("answer", "text", "correct") if word in single), "")
    for word, target in LIST_OF.items():
        if word not in single:
            continue
        values = [member.get(single[word]) for _, member in members]
        if word == first_word or not all(map(is_missing, values)):
            row[target] = values
    return question_or_scores(where, _slots_as_branches(row), texts=texts)


def _order(value: object) -> tuple[int, float, str]:
    try:
        return 0, real(value), ""
    except (TypeError, ValueError):
        return 1, 0.0, str(value)


def _same(members: list[tuple[str, Row]], word: str, column: str | None) -> None:
    """Raise LogError where a question-level value differs between its paths."""
    if column is None:
        return
    (_, first), *rest = members
    for where, row in rest:
        if row.get(column) != first.get(column) and not (
            is_nan(row.get(column)) and is_nan(first.get(column))
        ):
            raise LogError(
                f"{where}: {word} is {short(row.get(column))}, but {short(first.get(column))} in an "
                "earlier row of the same id"
            )


def _slots_as_branches(row: Object) -> Object:
    """Return a row whose named slots are branches."""
    slots = items(row.get("slots"))
    if not slots:
        return row
    try:
        for value in slots:
            slot(value)
    except (TypeError, ValueError, OverflowError):
        models = items(row.get("branches")) or [None] * len(slots)
        names = [
            "/".join(str(part) for part in pair if not is_missing(part))
            for pair in zip(models, slots, strict=True)
        ]
        rest = {name: value for name, value in row.items() if name != "slots"}
        return rest | {"branches": names}
    return row
