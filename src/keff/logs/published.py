"""The paper's published records: one line per seed and instance, saturation (K=32) or matrix (K=8) layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import cast

from keff.answers.parts.spec import cached
from keff.errors import LogError
from keff.log import LogInfo, NoteSink, Question, ignore
from keff.logs.parts.lines import FirstLine, Row, head_row, json_lines, refused
from keff.logs.parts.values import (
    completion_text,
    converted,
    count,
    inner,
    is_nan,
    optional_text,
    real,
    short,
    truth,
)
from keff.narrow import Fields, is_array

# Token F1 from which an open answer counts as right (the paper's criterion for open answers).
F1_NEEDED = 0.5
# Of so many distinct pairs of answer and gold one it is remembered whether they agree: some files' worth.
MOST_PAIRS = 2**12

# What every row of the published records has: by these the format is known.
FIELDS = ("task", "method", "seed", "instance_id", "K")

# The published scorers -> the answer space that does the same, None where only execution can tell.
SCORERS: Mapping[str, str | None] = {
    "gsm8k_numeric": "numeric",
    "hotpotqa_token_f1": "text",
    "boolq_yesno": "binary",
    "math500_canonical_exact": "math",
    "mc_exact": "choice:labels=A,B,C,D,E,F,G,H,I,J",
    "triviaqa_alias_canonical_exact": "text:match=exact",
    "drop_alias_numeric_or_squad_exact": "text:match=exact",
    "cruxeval_literal_exact": "literal",
    "mbpp_per_assert_sandbox": None,
}

# Rows without a scorer are scored as the paper scores their task.
BY_TASK = {
    "gsm8k": "gsm8k_numeric",
    "math": "math500_canonical_exact",
    "hotpotqa": "hotpotqa_token_f1",
    "triviaqa": "triviaqa_alias_canonical_exact",
    "arc_challenge": "mc_exact",
    "mmlu": "mc_exact",
    "hellaswag": "mc_exact",
    "winogrande": "mc_exact",
    "boolq": "boolq_yesno",
    "drop": "drop_alias_numeric_or_squad_exact",
    "cruxeval": "cruxeval_literal_exact",
    "mbpp": "mbpp_per_assert_sandbox",
}
NOTHING: Fields = {}
# Tasks that the files name otherwise than keff.
SHORT = {"arc": "arc_challenge", "math500": "math", "hotpot": "hotpotqa"}


# Part of a file -> where it begins, and its provenance, which must stay the same.
Provenances = dict[str, tuple[str, Fields]]


def task_of(row: Row) -> str:
    """Return keff's name for a row's task."""
    name = str(row["task"]).lower()
    return SHORT.get(name, name)


class Published(FirstLine):
    """Reader of one file of the published records.

    A question is one instance under one seed; the seeds of an instance are one cluster. A matrix file holds
    several records, its parts ``task/method``, such as ``gsm8k/sc_prompttpl``, whose path j used template
    j. A null answer scores 0, and so does a truncated path, as in the paper. Raises LogError, with file and
    line, for missing fields, lists that are not K long, a provenance that changes within a part, or a scorer
    that is not one of the published ones.
    """

    name = "published"
    fields = FIELDS

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        row = head_row(path)
        scorer = SCORERS.get(_scorer(row) or "")
        model = row.get("model_slug") or _provenance(row).get("model_id") or path.stem.split("_capgated")[0]
        return LogInfo(task=task_of(row), space=scorer and scorer.partition(":")[0], model=str(model))

    def questions(self, path: Path, *, texts: bool = False, tell: NoteSink = ignore) -> Iterator[Question]:
        """Yield the questions one by one; see ``Log.questions``."""
        return _questions(path, {}, refused, texts=texts, tell=tell)


def survey(path: Path, tell: NoteSink = ignore) -> tuple[list[Question], list[Fields], list[str]]:
    """Read a whole file and return its questions together with all errors in it.

    Returns the questions that could be read, the provenance of each part's first row, and the problems. A
    torn last line is no problem of the others: it is kept out and told.
    """
    first: Provenances = {}
    problems: list[LogError] = []
    questions = list(_questions(path, first, problems.append, texts=False, tell=tell))
    return questions, [provenance for _, provenance in first.values()], list(map(str, problems))


def _questions(
    path: Path, first: Provenances, wrong: Callable[[LogError], None], *, texts: bool, tell: NoteSink
) -> Iterator[Question]:
    """Yield the readable questions; errors of others are passed to ``wrong``."""
    seen: set[tuple[str, str]] = set()
    for where, row in json_lines(path, tell, wrong):
        try:
            question = question_of(where, row, texts=texts)
            _check_provenance(where, row, question.part, first)
        except LogError as error:
            wrong(error)
            continue
        if (question.part, question.id) in seen:
            wrong(LogError(f"{where}: duplicate id {question.id!r}"))
        seen.add((question.part, question.id))
        yield question


def _check_provenance(where: str, row: Row, part: str, first: Provenances) -> None:
    """Record a part's first provenance; raises LogError when a later row's differs."""
    after = _provenance(row)
    begun, before = first.setdefault(part, (where, after))
    names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    if names:
        changes = ", ".join(f"{name} {before.get(name)!r} -> {after.get(name)!r}" for name in names)
        raise LogError(f"{where}: mixed provenance: {changes} (first: {begun.rpartition(':')[2]})")


def question_of(where: str, row: Row, *, texts: bool = False) -> Question:
    """Return the Question of one published row, with correctness; raises LogError."""
    missing = [name for name in FIELDS if row.get(name) is None]
    if missing:
        raise LogError(f"{where}: lacks {', '.join(missing)}")
    _check_kinds(where, row)
    k = cast("int", row["K"])
    given = _list(where, row, "all_answers", k)
    stated = None if given is None else converted(where, "all_answers", given, optional_text)
    # Before anything of size K is made: a list of that length must have cost the file its bytes.
    correct = _correct(where, row, stated, k)
    method = str(row["method"])
    tokens = _list(where, row, "gen_lens", k)
    traces = _list(where, row, "all_traces", k)
    truncated = _list(where, row, "truncated", k)
    cuts = converted(where, "truncated", truncated, truth) if truncated else None
    if cuts:
        correct = tuple(int(right and not cut) for right, cut in zip(correct, cuts, strict=True))
    instance = str(row["instance_id"])
    kinds = set(map(type, given or ()))
    return Question(
        id=f"{instance}@{row['seed']}",
        answers=(None,) * k if stated is None else stated,
        gold=row.get("gold_answer"),
        correct=correct,
        tokens=converted(where, "gen_lens", tokens, count) if tokens else None,
        slots=tuple(range(1, k + 1)) if method == "sc_prompttpl" else None,
        truncated=cuts,
        cluster=instance,
        texts=converted(where, "all_traces", traces, completion_text) if texts and traces else None,
        form="answers" if given else "scores",
        nan=sum(map(is_nan, given or ())) if float in kinds else 0,
        structured=not kinds.isdisjoint((list, dict)),
        part=f"{task_of(row)}/{method}",
        meta={"seed": row["seed"], "max_new_tokens": row.get("max_new_tokens")},
    )


def _check_kinds(where: str, row: Row) -> None:
    for name in FIELDS:
        value = row[name]
        whole = isinstance(value, int) and not isinstance(value, bool)
        if name == "K" and (not whole or cast("int", value) < 1):
            raise LogError(f"{where}: K must be a positive integer, not {short(value)}")
        if name == "seed" and not whole:
            raise LogError(f"{where}: seed must be an integer, not {short(value)}")
        if not isinstance(value, str | int):
            raise LogError(f"{where}: {name} must be a name, not {short(value)}")


def _correct(where: str, row: Row, given: Sequence[str | None] | None, k: int) -> tuple[int, ...]:
    for name in ("all_correct", "all_f1s"):
        values = _list(where, row, name, k)
        if values is not None:
            return _verdicts(where, name, values)
    if given is None:
        raise LogError(f"{where}: lacks all_answers, all_correct and all_f1s")
    scorer = _known_scorer(where, row)
    if SCORERS[scorer] is None:
        raise LogError(f"{where}: {scorer} must run code: the record needs all_correct")
    if row.get("gold_answer") is None:
        raise LogError(f"{where}: lacks gold_answer, which its answers are scored against")
    return _score(scorer, given, row["gold_answer"])


def _verdicts(where: str, name: str, values: list[object]) -> tuple[int, ...]:
    known = [0 if value is None else value for value in values]
    if name == "all_correct":
        return converted(where, name, known, truth)
    return tuple(int(score >= F1_NEEDED) for score in converted(where, name, known, _f1))


def _f1(value: object) -> float:
    with suppress(TypeError, ValueError):
        # NaN fails this comparison too; as a score it would count as wrong without a word.
        if 0 <= (score := real(value)) <= 1:
            return score
    raise ValueError("numbers from 0 to 1")


def _score(scorer: str, given: Sequence[str | None], gold: object) -> tuple[int, ...]:
    # An instance comes again under every seed, with much the same answers.
    right = _is_right if isinstance(gold, str) else _is_right.__wrapped__
    judged = {text: 0 if text is None else right(scorer, text, gold) for text in set(given)}
    return tuple(map(judged.__getitem__, given))


@lru_cache(maxsize=MOST_PAIRS)
def _is_right(scorer: str, text: str, gold: object) -> int:
    return int(cached(str(SCORERS[scorer])).correct(text, gold))


def _known_scorer(where: str, row: Row) -> str:
    scorer = _scorer(row)
    if scorer is None or scorer not in SCORERS:
        raise LogError(f"{where}: unknown scorer {scorer!r}; there are {', '.join(SCORERS)}")
    return scorer


def _scorer(row: Row) -> str | None:
    """Return the scorer named by the provenance, else the task's."""
    return optional_text(_provenance(row).get("scorer")) or BY_TASK.get(task_of(row), str(row["task"]))


def _provenance(row: Row) -> Fields:
    return inner(row, "provenance") if "provenance" in row else NOTHING


def _list(where: str, row: Row, name: str, k: object) -> list[object] | None:
    given = row.get(name)
    if given is None:
        return None
    if not is_array(given) or len(given) != k:
        size = f"{len(given)} entries" if is_array(given) else "no list"
        raise LogError(f"{where}: {name} has {size}, K is {k}")
    return given


log = Published
