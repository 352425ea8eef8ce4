"""Import of logs into run folders, and export of runs or logs to JSONL or Parquet."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from keff.errors import LogError, StoreError, UsageError
from keff.files import draft_of
from keff.log import LogInfo, Question, find_log
from keff.logs.parts.tabled import KNOWN, PER_PATH
from keff.logs.run import PREFIX, RECORDED
from keff.narrow import Object
from keff.plugins import import_extra
from keff.reading.ballot import Reading, correct_of, keys_of, read_again, with_answers
from keff.reading.open import Opening, naming, only_part, questions_of_log
from keff.records import Completion, Item, Note, frozen, stable_hash
from keff.records import Path as Drawn
from keff.sampling.manifest import IMPORTED, Config
from keff.sampling.store import Run
from keff.sampling.store.rows import path_seed
from keff.task import ScoredText


def question_rows(
    questions: Iterable[Question], info: LogInfo, how: Reading, *, packed: bool
) -> Iterator[Object]:
    """Yield each question's row, in a form that keff reads back unchanged."""
    about = {"task": info.task, "answer_space": how.space, "model": info.model}
    for question in questions:
        judged = list(judged_paths(question, how))
        unscored = judged and judged[0].correct is None
        bare = question.form == "scores"
        lists: dict[str, Sequence[object] | None] = {
            "all_answers": None if bare else question.answers,
            "all_keys": None if bare else [path.key for path in judged],
            "all_correct": None if unscored else [path.correct for path in judged],
            "all_rules": None if bare else [path.rule for path in judged],
        }
        further = ((name, field) for field, (name, _) in PER_PATH.items() if name not in lists)
        lists |= {name: getattr(question, field) for name, field in further}
        row = {
            "id": question.id,
            "question": question.question,
            "gold_answer": question.gold,
            "cluster": question.cluster or None,
            **{name: null_for_nan(values) for name, values in lists.items() if values is not None},
            **about,
        }
        meta = {name: value for name, value in question.meta.items() if name not in KNOWN}
        yield _with_meta_column(row, meta) if packed else row | meta


def null_for_nan(values: Sequence[object]) -> list[object]:
    """Return path values as JSON, NaN as null."""
    return [value if value == value else None for value in values]


def _with_meta_column(row: Object, meta: Object) -> Object:
    """Return a row with fields of mixed type packed into one JSON column."""
    if not isinstance(row["gold_answer"], str | None):
        meta = meta | {"gold_answer": row["gold_answer"]}
        row = row | {"gold_answer": None}
    return row | {"meta": json.dumps(meta, ensure_ascii=False, default=str)}


def voted_rows(questions: Iterable[Question], how: Reading, *, packed: bool) -> Iterator[Object]:
    """Yield the vote of each question as a row."""
    for question in questions:
        row = voted(question, list(judged_paths(question, how)))
        gold = row["gold_answer"]
        if packed and not isinstance(gold, str | None):
            row["gold_answer"] = json.dumps(gold, ensure_ascii=False, default=str)
        yield row


def voted(question: Question, judged: Sequence[ScoredText]) -> Object:
    """Return one question's vote as a row."""
    # A Counter keeps the order of the paths, so the first key wins among equals.
    votes = Counter(path.key for path in judged if path.key is not None)
    key, most = max(votes.items(), key=lambda pair: pair[1], default=(None, 0))
    winners = [path for path in judged if key is not None and path.key == key]
    scored = [path.correct for path in winners if path.correct is not None]
    unscored = not judged or judged[0].correct is None
    return {
        "id": question.id,
        "answer": winners[0].answer if winners else None,
        "key": key,
        "votes": most,
        "paths": len(judged),
        "share": most / len(judged) if judged else None,
        "tied": sum(count == most for count in votes.values()) > 1,
        "gold_answer": question.gold,
        "correct": None if unscored else sum(scored) / len(scored) if scored else 0.0,
    }


def judged_paths(question: Question, how: Reading) -> Iterator[ScoredText]:
    """Yield each path's answer, key, correctness and extraction rule."""
    k = len(question.answers)
    keys = keys_of(question, k, how.key)
    labelled = question.correct is not None or question.gold is not None
    correct = correct_of(question, k, how) if labelled else [None] * k
    for place, (answer, key) in enumerate(zip(question.answers, keys, strict=True)):
        rule = question.rules[place] if question.rules else "recorded" if key is not None else "no answer"
        right = correct[place]
        # A path without an answer is not right, unless the log keeps verdicts alone.
        abstains = key is None and question.form != "scores"
        yield ScoredText(answer, key, 0 if right and abstains else right, rule)


# So many questions are in memory at a time.
AT_ONCE = 16


@frozen
class Transfer:
    """Result of a transfer: questions and paths moved, and those left out."""

    questions: int
    paths: int
    notes: tuple[Note, ...]


@frozen
class _Source:
    """A log in transfer, with ``counts`` of questions and paths so far."""

    name: str
    info: LogInfo
    reading: Reading
    questions: Iterator[Question]
    notes: list[Note]
    counts: list[int]

    def moved(self) -> Transfer:
        return Transfer(self.counts[0], self.counts[1], tuple(self.notes))


def import_log(path: Path, folder: Path, opening: Opening | None = None) -> Transfer:
    """Import a log into a run folder for analyze, replay and report.

    Answers, canonical keys and correctness are kept as the log has them or as the reading finds them; the
    raw texts where the log has them, else the answers themselves. The log is read twice, a few questions at
    a time. An import that was interrupted goes on where it stopped, for committed paths stay. Raises
    LogError for what cannot be read, and for logs that hold correctness only; StoreError when the run holds
    other paths of the same questions.
    """
    opening = opening or Opening()
    with naming(path):
        sizes, slots, prompt = _extent(path, opening)
        source = _open(path, opening, texts=True)
        version = f"recorded by {source.name}"
        config = Config(
            engine={"engine": f"{IMPORTED}{source.name}", "model": source.info.model},
            task={
                "name": source.info.task or "imported",
                "version": version,
                "space": source.reading.space,
            },
            sampling={},
            templates=slots,
            prompt=prompt,
        )
        with Run.write(folder, config, n=len(sizes), k=max(sizes)) as run:
            while some := list(islice(source.questions, AT_ONCE)):
                _import(run, some, source, version)
        return source.moved()


def _extent(path: Path, opening: Opening) -> tuple[list[int], tuple[int, ...], str]:
    """Return a log's path numbers, slots and a hash of its first question, read without texts.

    A run must know its size before the first path.
    """
    log, slots = find_log(path, opening.format, opening.options), dict[int, None]()
    sizes: list[int] = []
    prompt = ""
    for question in only_part(log.questions(path), opening.part):
        _check_answers(path, question)
        prompt = prompt if sizes else stable_hash(question.question)
        sizes.append(len(question.answers))
        slots |= dict.fromkeys(question.slots or (0,))
    if not sizes:
        raise LogError(f"{path}: there are no questions in it")
    if not max(sizes):
        raise LogError(f"{path}: its questions have no paths")
    return sizes, tuple(slots), prompt


def _import(run: Run, questions: Sequence[Question], source: _Source, version: str) -> None:
    run.put_items([_item(question, source) for question in questions])
    for question in questions:
        paths = list(_paths(question))
        _refuse_others(run, question.id, paths)
        run.add(paths)
        run.add_scores(list(zip(paths, judged_paths(question, source.reading), strict=True)), version)


def _refuse_others(run: Run, item: str, paths: Sequence[Drawn]) -> None:
    """Raise where the run holds different paths of an item."""
    known = {(kept.path.slot, kept.path.index): kept.completion.text for kept in run.kept(item)}
    if any(
        known.get((path.slot, path.index), path.completion.text) != path.completion.text
        for path in paths
        if path.completion is not None
    ):
        raise StoreError(f"{run.folder}: it holds other paths of item {item}: use another --run folder")


def export_log(
    path: Path, out: Path, opening: Opening | None = None, *, texts: bool = True, votes: bool = False
) -> Transfer:
    """Export a run or log, to Parquet by the name of the file, else as JSONL, that keff reads back unchanged.

    The file appears only when it is whole. Of ``votes`` it holds only the plurality answer of each question,
    in a row with ``id``, ``answer`` (as the first path wrote it that holds the winning key; None when nobody
    answered), ``key``, ``votes``, ``paths``, ``share`` (votes per path), ``tied`` (more keys have as many
    votes: the first in the order of the paths wins), ``gold_answer``, and ``correct`` (the mean correctness
    of the paths with that key; None without labels). Raises UsageError when the file exists already.
    """
    packed = out.suffix == ".parquet"
    with naming(path):
        source = _open(path, opening or Opening(), texts=texts and not votes)
        if votes:
            rows = voted_rows(source.questions, source.reading, packed=packed)
        else:
            rows = question_rows(source.questions, source.info, source.reading, packed=packed)
        _atomically(out, rows, packed=packed, votes=votes)
    return source.moved()


def write_questions(questions: Iterable[Question], info: LogInfo, how: Reading, out: Path) -> None:
    """Write questions as JSONL that keff reads back the same; raises UsageError when the file exists."""
    _atomically(out, question_rows(questions, info, how, packed=False))


def _atomically(out: Path, rows: Iterator[Object], *, packed: bool = False, votes: bool = False) -> None:
    """Write rows to a file that appears only when complete."""
    try:
        if out.exists():
            raise UsageError(f"{out} exists already: move it away, or name another file with -o")
        with draft_of(out) as draft:
            if packed:
                import_extra("keff.logs.parts.pyarrow", "a Parquet file").write(draft, rows, votes=votes)
                return
            with draft.open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror or error}") from None


def _open(path: Path, opening: Opening, *, texts: bool) -> _Source:
    notes, counts = list[Note](), [0, 0]
    # Nothing is analysed here, so records of any length pass through.
    log, info, how, questions = questions_of_log(path, opening, notes.append, texts=texts, whole=True)

    def answered() -> Iterator[Question]:
        for question in questions:
            _check_answers(path, question)
            counts[0] += 1
            counts[1] += len(question.answers)
            yield read_again(with_answers(question, how), how, texts=texts)

    return _Source(log.name, info, how, answered(), notes, counts)


def _check_answers(path: Path, question: Question) -> None:
    if question.form == "scores":
        raise LogError(f"{path}: it holds correctness only, and no answers to keep")


def _item(question: Question, source: _Source) -> Item:
    messages = () if question.question is None else ({"role": "user", "content": question.question},)
    given = {name: getattr(question, name) for name in RECORDED}
    meta = {
        **question.meta,
        **{PREFIX + name: null_for_nan(values) for name, values in given.items() if values},
    }
    return Item(question.id, messages, question.gold, source.reading.space, question.cluster, meta)


def _paths(question: Question) -> Iterator[Drawn]:
    counts: dict[int, int] = {}
    for place, answer in enumerate(question.answers):
        slot = question.slots[place] if question.slots else 0
        index = counts[slot] = counts.get(slot, -1) + 1
        tokens = question.tokens[place] if question.tokens else 0.0
        done = Completion(
            text=question.texts[place] if question.texts else answer or "",
            finish="length" if question.truncated and question.truncated[place] else "stop",
            tokens=int(tokens) if tokens == tokens else 0,
        )
        yield Drawn(question.id, slot, index, 0, path_seed(0, question.id, slot, index), done)
