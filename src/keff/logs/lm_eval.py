"""samples_*.jsonl of lm-evaluation-harness: the repeats of a generation task, read again by our task.

What the results file beside samples of lm-evaluation-harness says: model, generation settings, choices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from keff import plugins
from keff.errors import LogError, TaskError
from keff.log import LogInfo, NoteSink, Question, ignore
from keff.logs.parts.foreign import configured
from keff.logs.parts.lines import FirstLine, Row, head_row, json_lines, loads
from keff.logs.parts.values import at, inner, known_task, name_of
from keff.narrow import Object, fields, items, text
from keff.records import Note
from keff.sampling.integrity import LONG
from keff.task import Task

# The time in the name of a file of samples: the file of results beside it has the same.
STAMP = re.compile(r"\d{4}-\d{2}-\d{2}T[\d.:-]+(?=\.jsonl$)")
# The results file holds settings and scores, no samples: larger ones are something else.
MOST_RESULTS = 64 * 2**20


def results_of(path: Path) -> Row:
    """Return the results file of the same run (``results_<time>.json``) as an object; empty if absent."""
    stamp = STAMP.search(path.name)
    file = path.with_name(f"results_{stamp[0]}.json") if stamp else None
    if file is None or not file.is_file() or file.stat().st_size > MOST_RESULTS:
        return {}
    try:
        return fields(loads(file.read_bytes().decode("utf-8-sig")))
    except (ValueError, RecursionError, OSError) as error:
        raise LogError(
            f"{file}: not JSON ({error}). Remove it, and keff reads the log beside it without it"
        ) from None


def model_name(said: Row) -> str | None:
    """Return the model's name from the results file."""
    return text(at(said, "model_name", "config/model_args/model", "config/model_args/pretrained"))


def configuration(said: Row, named: str, task: str, row: Row) -> Object:
    """Return the configuration of ``task``, whose name in the harness is ``named``.

    The arguments of the first request are what was asked for in the end; else those of the task's settings.
    """
    asked = inner(row, "arguments", "gen_args_0", "arg_1") or inner(
        said, "configs", named, "generation_kwargs"
    )
    if asked.get("do_sample") is False:
        asked = {**asked, "temperature": 0.0}
    until = asked.get("until")
    engine: Object = {
        "engine": f"{at(said, 'config/model') or 'lm_eval'} (lm_eval)",
        "model": model_name(said),
        "base_url": at(said, "config/model_args/base_url"),
    }
    return configured(engine, task, "lm_eval", asked, [until] if isinstance(until, str) else until)


def choices_of(said: Row, task: str) -> Sequence[str] | None:
    """Return the choices common to all questions, as ``doc_to_choice`` lists them."""
    choices = items(inner(said, "configs", task).get("doc_to_choice"))
    texts = [choice for choice in choices if isinstance(choice, str)]
    return texts if texts and len(texts) == len(choices) else None


def target_of(target: object, choices: Sequence[str] | None) -> object:
    """Return the gold answer; an index is replaced by its choice.

    The harness writes the index as text. A target that is itself one of the choices is taken as it is.
    """
    if choices is None or target in choices or not isinstance(target, str | int) or isinstance(target, bool):
        return target
    text = str(target).strip()
    return choices[int(text)] if text.isdigit() and int(text) < len(choices) else target


# The task stands in the name of the file alone: no line of samples names it.
NAME = re.compile(r"samples_(.+?)(?:_\d{4}-\d{2}-\d{2}T[\d.:-]+)?\.jsonl")

# From this share of questions on, equal texts in all repeats are no accident.
COPIES = 0.5


class LmEval(FirstLine):
    """Reader of the per-sample logs that lm-eval writes with --log_samples.

    ``resps[0][r]`` is repeat r. A document has one line for each filter: the first one counts, and its raw
    completions are read and scored by the task of keff whose name the file's task begins with; else by the
    answer space that the user names, against ``target``. Filtered answers and scores, which exist only
    once for all repeats, are kept in ``meta``.
    """

    name = "lm_eval"
    fields = ("doc_id", "resps")

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        row = head_row(path)
        task, named, said = _task(path, row), _task_name(path), results_of(path)
        system = text(said.get("system_instruction"))
        return LogInfo(
            task=task,
            model=model_name(said) or path.parent.name.replace("__", "/") or None,
            config=configuration(said, named, task or named, row),
            options={"system": system} if system else {},
        )

    def questions(self, path: Path, *, texts: bool = False, tell: NoteSink = ignore) -> Iterator[Question]:
        """Yield the questions one by one; see ``Log.questions``."""
        name = self.info(path).task
        task = None if name is None else plugins.load("task", name)
        choices = choices_of(results_of(path), _task_name(path))
        seen: set[str] = set()
        copies = 0
        for where, row in json_lines(path, tell):
            try:
                identity = name_of(row.get("doc_id"))
            except ValueError:
                raise LogError(f"{where}: lacks doc_id") from None
            if identity in seen:
                continue
            seen.add(identity)
            question = _question(where, identity, row, task, choices)
            copies += _one_text(question)
            yield question if texts else replace(question, texts=None)
        if copies > COPIES * len(seen):
            text = f"all repeats are the same text in {copies} of {len(seen)} questions: one seed for all?"
            tell(Note("identical_paths", text))


def _question(where: str, name: str, row: Row, task: Task | None, choices: Sequence[str] | None) -> Question:
    try:
        item = task.to_item(inner(row, "doc")) if task else None
    except TaskError as error:
        raise LogError(f"{where}: doc: {error}") from None
    responses = _responses(where, row)
    metrics = row.get("metrics")
    names = (name for name in items(metrics) if isinstance(name, str))
    kept = {"filter", "filtered_resps", "metrics", *names}
    return Question(
        id=name,
        answers=responses,
        gold=target_of(row.get("target"), choices) if item is None else item.gold,
        cluster=item.cluster if item else "",
        question=_prompt(row),
        texts=responses,
        form="completions",
        meta={field: value for field, value in row.items() if field in kept},
    )


def _responses(where: str, row: Row) -> tuple[str, ...]:
    requests = items(row.get("resps"))
    repeats = items(requests[0]) if requests else []
    if not repeats:
        raise LogError(f"{where}: resps must be a list of lists, of which the first holds the repeats")
    texts = tuple(text for text in repeats if isinstance(text, str))
    if len(requests) > 1 or len(texts) < len(repeats):
        raise LogError(
            f"{where}: resps holds log-likelihoods: a vote needs a generation task (generate_until)"
        )
    return texts


def _task_name(path: Path) -> str:
    """Return the task's name in the harness, from the file name."""
    named = NAME.fullmatch(path.name)
    return named[1] if named else ""


def _task(path: Path, row: Row) -> str | None:
    name = known_task(_task_name(path))
    with suppress(TaskError):
        return name if name and plugins.load("task", name).to_item(inner(row, "doc")) else None
    return None  # its columns are not those of our task


def _one_text(question: Question) -> bool:
    """Return whether the repeats were joined into one long text."""
    texts = set(question.answers)
    return len(question.answers) > 1 and len(texts) == 1 and len((texts.pop() or "").split()) >= LONG


def _prompt(row: Row) -> str | None:
    prompt = at(row, "arguments/gen_args_0/arg_0")
    return None if prompt is None else str(prompt)


log = LmEval
