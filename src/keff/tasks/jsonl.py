"""Your own questions.

A JSONL file with a question (or messages) and, where known, the answer on each line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from keff.answers import Extracted, Space, last_answer, space, strip_thinking, why
from keff.errors import TaskError
from keff.narrow import entries, is_array
from keff.records import AnswerSpace, Completion, Item, Message, stable_hash
from keff.task import LocatedRow, Row, ScoredText
from keff.tasks._base import SpacedTask, read_file, text
from keff.tasks._templates import read_templates
from keff.usercode import UserCode

# Gold answers that all have one of these forms say how answers are read, where nothing else does.
_FORMS: dict[AnswerSpace, re.Pattern[str]] = {
    "numeric": re.compile(r"\s*[-+$]?[\d,]*\.?\d+(?:[eE][-+]?\d+|\s*/\s*\d+)?\s*%?\s*"),
    "binary": re.compile(r"\s*(?:yes|no|true|false)\s*", re.IGNORECASE),
    "choice": re.compile(r"\s*[A-J]\s*"),
}
_FIELDS = ("id", "question", "messages", "answer", "cluster")


class Jsonl(SpacedTask):
    """Task of one file's questions: ``{"id", "question", "answer"}`` a line.

    ``messages`` (a list in the OpenAI form, the last from the user) may stand instead of ``question``;
    ``id`` may be absent (then a content hash), and so may ``answer`` (then ``gold_answer`` is taken, and
    without either nothing is scored) and ``cluster``; other fields are kept as ``item.meta``. ``answer`` is a
    text, a number, true or false, an object (JSON), or a list of acceptable ones; with a scorer it is handed
    to it as it is.

    The final-answer instruction of the answer space is added to a ``question``. Nothing is added to
    ``messages``, or when there is an ``answer_regex`` or ``scorer``, whose prompt is the user's own.

    ``answer_space`` is inferred from the answers if not given (see ``infer_space``). ``system`` is a system
    message put first; ``template`` a TOML file with ``templates = ["..."]``. ``answer_regex`` finds the
    answer: its last match, group 1 if it has one; it is the user's own, so an expression with runaway
    backtracking takes as long as it takes. ``scorer`` is ``FILE.py:function``: ``function(text, gold)``
    returns a bool or (answer, bool) for the visible text; it is run as it is, with all rights.
    """

    def __init__(
        self,
        data: str,
        answer_space: AnswerSpace | None = None,
        system: str | None = None,
        template: str | None = None,
        answer_regex: str | None = None,
        scorer: str | None = None,
    ) -> None:
        self.data = data
        self.system = system
        self.templates: Sequence[str] = read_templates(template) if template else ("",)
        self.regex = None if answer_regex is None else _compile(answer_regex)
        self.scorer = None if scorer is None else UserCode.parse(scorer, "scorer")
        golds = [gold for row in read_file(data) if (gold := _answer(row)) is not None]
        self.space = answer_space or infer_space(golds)
        if self.space == "code":
            raise TaskError("answer space code runs tests, which own questions lack: name exact")
        space(self.space)
        if self.space == "choice":
            self.space_options = (("labels", _labels(golds)),)
        self.name = f"jsonl:{Path(data).stem}"
        # Not the path: the same file scores alike wherever it stands.
        code = self.scorer
        identity = (None, "") if code is None else (code.function, code.stamp.sha256)
        self.version = f"1-{self.space}-{stable_hash(answer_regex, *identity)[:12]}"

    def rows(self) -> Iterator[LocatedRow]:
        """Yield the file's lines in order."""
        return read_file(self.data)

    def to_item(self, row: Row) -> Item:
        """Return a line's Item; raises TaskError for missing fields or wrong forms."""
        messages = _messages(row)
        if self.system is not None:
            messages = ({"role": "system", "content": self.system}, *messages)
        identity = row.get("id")
        if identity is None:
            identity = stable_hash([dict(message) for message in messages])[:16]
        if isinstance(identity, bool) or not isinstance(identity, str | int) or identity == "":
            raise TaskError(f'"id" is {identity!r}: expected a string or an integer')
        meta = {name: value for name, value in row.items() if name not in _FIELDS}
        own = self.regex is not None or self.scorer is not None or "question" not in row
        gold = _answer(row) if self.scorer else _gold(_answer(row))
        cluster = "" if row.get("cluster") is None else str(row["cluster"])
        return Item(str(identity), messages, gold, self.space, cluster, {**meta, "own_prompt": own})

    def reader(self, item: Item | None = None) -> Space:
        """Return the file's answer space, shared by all items."""
        del item
        return super().reader()

    def contract(self, item: Item) -> str:
        """Return the answer space's instruction; empty for a prompt of the user's own."""
        return "" if item.meta.get("own_prompt") else super().contract(item)

    def read(self, item: Item | None, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the user's regular expression's last match, if any is set; else the space's reading."""
        if self.regex is None:
            return super().read(item, text, truncated=truncated)
        answer = last_answer(self.regex, text, truncated)
        return None if answer is None else Extracted(answer, "regex")

    def why(self, item: Item | None, text: str) -> str:
        """Return why a completion abstains: the expression does not match, or what it matched has no key."""
        if self.regex is None:
            return super().why(item, text)
        match = self.read(item, text)
        return "the expression does not match" if match is None else why(self.reader(item), match.answer)

    def judge(self, item: Item, completion: Completion) -> ScoredText:
        """Return the reading of one completion, scored by the user's scorer if there is one."""
        if self.scorer is None:
            return super().judge(item, completion)
        judged = super().judge(replace(item, gold=None), completion)
        if judged.rule == "refusal":
            return replace(judged, correct=None if item.gold is None else 0)
        scored = _verdict_of(self.scorer, strip_thinking(completion.text), item.gold)
        if isinstance(scored, bool):
            return replace(judged, correct=None if item.gold is None else int(scored))
        answer, right = scored
        key = None if answer is None else self.reader(item).key(answer) or answer.strip()
        correct = None if item.gold is None else int(right)
        return ScoredText(answer, key or None, correct, "scorer" if key else "no answer")

    def accepts_gold(self, item: Item) -> bool:
        """Return whether the gold answer passes the space's scorer; True with a user's scorer."""
        return self.scorer is not None or super().accepts_gold(item)


def _verdict_of(code: UserCode, text: str, gold: object) -> tuple[str | None, bool] | bool:
    """Return the verdict of the user's ``function(text, gold)``; raises TaskError for other values."""
    name = f"{code.path}:{code.function}"
    try:
        scored = code.load("scorer")(text, gold)
    except Exception as error:
        raise TaskError(f"{name} fails: {type(error).__name__}: {error}") from error
    if isinstance(scored, bool | int) and scored in (0, 1):
        return bool(scored)
    if isinstance(scored, tuple) and len(cast("tuple[object, ...]", scored)) == 2:
        answer, right = cast("tuple[object, object]", scored)
        if (answer is None or isinstance(answer, str)) and isinstance(right, bool | int):
            return answer, bool(right)
    raise TaskError(f"{name} returned {scored!r}: expected bool or (answer, bool)")


def infer_space(golds: Sequence[object]) -> AnswerSpace:
    """Return an answer space that reads every gold answer.

    ``json`` if each is an object, ``numeric`` if each is a number, ``binary`` if each is yes/no or
    true/false, ``choice`` if each is one capital letter from A to J, else (or without any gold) ``text``.
    """
    if golds and all(isinstance(gold, dict) for gold in golds):
        return "json"
    texts = [str(each) for gold in golds for each in (gold if is_array(gold) else [gold])]
    for name, form in _FORMS.items():
        if texts and all(map(form.fullmatch, texts)):
            return name
    return "text"


def _labels(golds: Sequence[object]) -> tuple[str, ...]:
    """Return the letters from A to the last gold answer, at least to E."""
    last = max(("E", *(str(gold).strip() for gold in golds if _FORMS["choice"].fullmatch(str(gold)))))
    return tuple(chr(code) for code in range(ord("A"), ord(last) + 1))


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise TaskError(f"the answer expression {pattern!r} is not valid: {error}") from error


def _answer(row: Row) -> object:
    """Return a row's gold answer, which logs call ``gold_answer``."""
    return row.get("answer", row.get("gold_answer"))


def _gold(gold: object) -> object:
    if gold is None or isinstance(gold, str):
        return gold
    if isinstance(gold, bool):
        return "yes" if gold else "no"
    if isinstance(gold, int | float):
        return str(gold)
    if isinstance(gold, dict):
        return json.dumps(gold, ensure_ascii=False)
    if is_array(gold) and gold:
        return [_gold(each) for each in gold]
    raise TaskError(
        f'"answer" is {gold!r}: expected a string, a number, true or false, an object, or a list of them'
    )


def _messages(row: Row) -> tuple[Message, ...]:
    if "messages" not in row:
        if "question" not in row:
            raise TaskError(f'no "question" and no "messages" (found: {", ".join(row) or "nothing"})')
        return ({"role": "user", "content": _question(row)},)
    messages = entries(row["messages"])
    if not messages:
        raise TaskError('"messages" is not a list of messages')
    for message in messages:
        if "role" not in message or "content" not in message:
            raise TaskError('malformed message: expected {"role": ..., "content": ...}')
    if not isinstance(messages[-1]["content"], str):
        raise TaskError("the content of the last message is not a string")
    return tuple(messages)


def _question(row: Row) -> str:
    try:
        return text(row, "question")
    except ValueError as error:
        raise TaskError(str(error)) from error


task = Jsonl
