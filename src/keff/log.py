"""Interface of log readers: recorded answers of any tool, one question at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from keff import plugins
from keff.errors import LogError, PluginError
from keff.files import first_bytes, is_utf16, no_log
from keff.narrow import Fields
from keff.records import AnswerSpace, Note, frozen

if TYPE_CHECKING:
    from keff.sampling.integrity import Integrity
    from keff.usercode import Stamp

Form = Literal["answers", "completions", "scores"]

# Begins the fields in ``Question.meta`` that hold a further confidence of every path, by name.
NAMED = "confidence."

# Begins the names of their lists in rows of one question, where that of the usual one is all_confidences.
LISTED = "all_confidences."

# Hears what a reader had to leave out.
NoteSink = Callable[[Note], None]


@frozen
class Question:
    """One recorded question with its K answers.

    ``answers`` are as recorded (None abstains); ``keys`` their canonical vote keys where the log has them;
    ``correct`` 0/1 per path where the log gives it; ``tokens``, ``prompt_tokens``, their ``cached_tokens``,
    ``seconds``, ``confidences`` and ``slots`` one per path where given; ``branches`` which model or prompt
    drew each path, by name; ``rules`` how each answer was found; ``truncated`` which paths were cut at the
    token limit. ``cluster`` defaults to the id. ``texts`` are the raw completions, only when asked for.

    ``form`` says what ``answers`` are: answers; whole ``completions``, from which the answer is still to be
    read; or nothing but their number (all None), where the log keeps only ``scores`` in ``correct``.
    ``scores`` are graded ones, one per path where given, NaN where missing. ``part`` names the record that a
    question belongs to, where one log holds several. ``nan`` counts answers that are the number NaN, which
    abstain; ``unjudged`` the paths that were left out because they have no verdict and others have;
    ``structured`` says that some answers are lists or objects, as JSON. Further confidences are lists in
    ``meta``, ``confidence.NAME``.
    """

    id: str
    answers: tuple[str | None, ...]
    gold: object = None
    keys: tuple[str | None, ...] | None = None
    correct: tuple[int, ...] | None = None
    tokens: tuple[float, ...] | None = None
    confidences: tuple[float, ...] | None = None
    slots: tuple[int, ...] | None = None
    prompt_tokens: tuple[float, ...] | None = None
    seconds: tuple[float, ...] | None = None
    branches: tuple[str, ...] | None = None
    rules: tuple[str, ...] | None = None
    truncated: tuple[int, ...] | None = None
    cluster: str = ""
    question: str | None = None
    texts: tuple[str, ...] | None = None
    form: Form = "answers"
    part: str = ""
    meta: Fields = field(default_factory=dict[str, object])
    nan: int = 0
    unjudged: int = 0
    structured: bool = False
    scores: tuple[float, ...] | None = None
    cached_tokens: tuple[float, ...] | None = None


@frozen
class LogInfo:
    """Metadata of a log: task, answer space, model, configuration, integrity.

    ``task`` is a keff task name where one is known, ``space`` its answer space, ``model`` the model's
    name; ``config`` is the whole configuration. Where the log is a run of keff, ``options`` are the
    options of the task, never any that names code; ``code`` is what it records of the user's code;
    ``integrity`` counts suspicious paths; ``stopped`` says that a policy decided how many paths each
    question has; ``scored`` that keff found which paths are right. ``parameters`` are what the server
    taught about the fields of a request. ``missing`` says what a log that was broken off lacks, and how
    to get it ("" for a whole one).
    """

    task: str | None = None
    space: AnswerSpace | None = None
    model: str | None = None
    config: Fields | None = None
    options: Fields = field(default_factory=dict[str, object])
    code: Mapping[str, Stamp] = field(default_factory=dict[str, "Stamp"])
    integrity: Integrity | None = None
    stopped: bool = False
    scored: bool = False
    missing: str = ""
    parameters: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])


def ignore(note: Note) -> None:
    """Discard a note: the default for readers nobody listens to."""
    del note


class Log(Protocol):
    """Reader of one format, made by ``keff.plugins.load("log", name, **options)``."""

    name: str

    def refuses(self, path: Path) -> str | None:
        """Return why a file is not in this format, or None when it is; reads only its head."""
        ...

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        ...

    def questions(self, path: Path, *, texts: bool = False, tell: NoteSink = ignore) -> Iterator[Question]:
        """Yield the questions one by one in bounded memory; raises LogError naming file and line.

        What is left out (a torn last line, paths that failed) is counted and told, in notes.
        """
        ...


# How files of logs end.
LOG_ENDINGS = (".eval", ".json", ".jsonl", ".csv", ".tsv", ".parquet")

# Why every reader refuses such a file.
UTF_16 = "UTF-16 text: save it as UTF-8"


def address(path: Path) -> str | None:
    """Return the URL of an object store, such as s3://bucket/votes, as text; None for a local path."""
    # A path holds one slash of the two; a single letter before the colon is a drive.
    found = re.match("([a-z][a-z0-9+.-]+):/+(.+)", str(path))
    if found is None or path.exists():
        return None
    return f"{found[1]}://{'/' if found[1] == 'file' else ''}{found[2]}"


def path_text(path: Path) -> str:
    """Return a path as text, as it was given: the address of an object store with both slashes."""
    return address(path) or str(path)


# Options of readers, and how the command line calls them.
OPTIONS = {"columns": "--columns", "scorer": "scorer=", "threshold": "threshold="}


def _readers() -> Iterator[str]:
    """Yield the readers by name, keff's own format first."""
    yield OWN
    yield from (known for known in plugins.each("log") if known not in (OWN, *LAST))
    yield from LAST


OWN = "keff_jsonl"
# What takes objects of any names, and what only folders need: it takes a tenth of a second to import.
LAST = ("jsonl", "run")


def find_log(path: Path, name: str | None = None, options: Fields | None = None) -> Log:
    """Return the reader of a file or folder: the named one, or the first that accepts it.

    ``options`` are those of ``OPTIONS`` that were given; only formats that take all of them are tried. Raises
    LogError that says why the nearest reader refused it.
    """
    given = dict(options or {})
    try:
        path.stat()
    except FileNotFoundError:
        if not re.search(r"[*?[]|^\w\w+:/", str(path)):
            piped = "; save standard input to a file, and name that" * (str(path) == "-")
            raise LogError(f"{path} does not exist{piped}") from None
        name = name or "parquet"  # several files, or an object store
    except (OSError, ValueError) as error:
        # Names above 255 bytes, null bytes, folders that may not be entered.
        why = getattr(error, "strerror", None) or error
        raise LogError(f"{path_text(path)} cannot be read: {why}") from None
    tried: dict[str, str] = {}
    for known in [name] if name else _readers():
        try:
            takes = signature(plugins.factory("log", known)).parameters
            lacking = [OPTIONS[option] for option in given if option not in takes]
            if lacking:
                tried[known] = f"it takes no {lacking[0]}"
                continue
            log: Log = plugins.load("log", known, **given)
        except PluginError as error:
            if name:
                raise
            tried[known] = str(error)
            continue
        reason = log.refuses(path)
        if reason is None:
            return log
        tried[known] = reason
    raise LogError(_why(path, tried))


def _why(path: Path, tried: Mapping[str, str]) -> str:
    """Return why no reader accepts a file: the reason of the closest format.

    Nearest is a table whose columns only lack their names, then the reader that the ending of the file names,
    then what most of them say.
    """
    if is_utf16(path):
        return f"{path}: {UTF_16}"
    if path.suffix == ".xlsx":
        return f"{path} is a workbook: save its sheet as CSV, and read that"
    head = first_bytes(path)
    if instead := no_log(path, head):
        return instead
    if path.is_fifo():
        return f"{path} is a pipe, and a log is read several times: write it to a file, and read that"
    if path.is_dir():
        return f"{path} is a folder: name a log in it, or make one of all (keff join {path} --pool -o OUT)"
    reasons = list(tried.values())
    if EMPTY in reasons:
        return f"{path}: {EMPTY}"
    more = " (--format NAME says why it is not a log of that tool)" if len(reasons) > 1 else ""
    table = next((f"{path_text(path)}: {why}" for why in reasons if isinstance(why, NoColumns)), None)
    name = max(tried, key=lambda one: (one == path.suffix[1:], reasons.count(tried[one])))
    return (table or f"{path_text(path)} is in no format that keff reads ({name}: {tried[name]})") + more


EMPTY = "the file is empty"


class NoColumns(str):
    """Why a reader refuses a table that lacks nothing but the names of its columns."""

    __slots__ = ()
