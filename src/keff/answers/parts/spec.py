"""Answer spaces by name: parse ``json:fields=a,b`` into the space.

A spec is a name, or ``name:option=value,option=value``; a value may hold commas (``fields=a,b``), and
``inner=`` takes the rest of the line, because it is a spec itself. Where that is not enough, the options are
a JSON object: ``label:{"labels": {"refund": ["money back"]}}``. Runs, logs and plans hold specs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from string import ascii_uppercase
from typing import Any, cast

from keff import plugins
from keff.answers.parts import json_text
from keff.answers.parts.base import Explains, Extracted, Space, complete, words
from keff.answers.parts.json_text import ANSWER_MEMBERS, NotRead
from keff.answers.parts.no_answer import Abstaining
from keff.answers.parts.thinking import strip_thinking
from keff.errors import PluginError, TaskError, UsageError, unknown
from keff.narrow import Object, fields

_OPTION = re.compile(r"\s*([a-z_]+)\s*=(.*)", re.DOTALL)
_TABLE = "table"
# The options of a choice where its question does not tell them: "I" is a word more often than an option.
LETTERS = ("A", "B", "C", "D", "E")
# Spaces whose answers are one value, of which a JSON document may hold many.
ONE_VALUE = frozenset({"numeric", "choice", "binary", "math", "date", "quantity", "label"})
# Characters at the end of a question in which its options are looked for.
LONGEST_QUESTION = 20_000
# Of a literal every word is a value or none, and of texts the user's own function decides.
_EVERY_WORD = frozenset({"literal", "key"})
# What says "no answer" elsewhere is a value in these.
_NONE_IS_A_VALUE = frozenset({"code"})
_LISTED = re.compile(r"^[ \t]*\(?([A-Z])[).:]\s", re.M)
_OBJECT = re.compile(r'\{\s*"')
_DOCUMENT = re.compile(r'(?i)\s*(?:```[ \t]*(?:json[c5]?)?[ \t]*\n\s*)?(?:\[\s*)?\{\s*"')
# Of spaces with several values: there an array is the answer itself, and ``{"a", "b"}`` a set.
_NAMED = re.compile(r'(?i)\s*(?:```[ \t]*(?:json[c5]?)?[ \t]*\n\s*)?\{\s*"(?:[^"\\]|\\.)*+"\s*:')
# Characters of a synonym table, which becomes a part of the spec.
LARGEST_TABLE = 1_000_000


class OfDocuments:
    """Wraps a space to accept replies that are JSON documents whose member is the answer.

    Its value is the member that is called the answer, where the space has a key for it; else the document
    votes as a whole, so that two objects never agree because some number or letter in them does. What begins
    as such a document and is cut off, or is no JSON, abstains.
    """

    def __init__(self, plain: Space) -> None:
        self.plain, self._document = plain, _DOCUMENT if plain.name in ONE_VALUE else _NAMED
        self.name, self.closed, self.contract = plain.name, plain.closed, plain.contract
        # A value agrees with the gold answer as in the inner space; a whole document never does.
        self.correct = plain.correct
        if isinstance(plain, Explains):
            self.why = plain.why  # since Python 3.12 isinstance does not ask __getattr__

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the inner space."""
        if name == "plain":
            raise AttributeError(name)
        return getattr(self.plain, name)

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the answer's member of a document, else the document; other text as the inner space.

        In words, fenced or bare, one object is read where it names the answer and no words behind it do.
        """
        if _OBJECT.search(text):
            shown = strip_thinking(text)
            if self._document.match(shown):
                try:
                    document = json_text.unfenced(shown)
                except NotRead:
                    # Words behind a whole document may say what the answer is.
                    if not json_text.begins_whole(shown):
                        return None
                else:
                    return None if truncated else Extracted(self._answer_member(document) or document, "JSON")
            held = None if truncated else json_text.only_object(shown)
            answer = held and self._answer_member(held[0])
            # As if truncated: only explicit statements behind the object count; its line is whole.
            if held and answer and self.plain.extract(f"{shown[held[1] :]}\n", truncated=True) is None:
                return Extracted(answer, "JSON")
        return self.plain.extract(text, truncated=truncated)

    def _answer_member(self, document: str) -> str | None:
        members = fields(json_text.value_of(document))
        found = (members[name] for name in ANSWER_MEMBERS if name in members)
        said = (each if isinstance(each, str) else json_text.canonical(each) for each in found)
        return next((each for each in said if self.plain.key(each) is not None), None)

    def key(self, answer: str) -> str | None:
        """Return the key of a value, or the canonical JSON of a document."""
        if self._document.match(answer):
            return json_text.canonical_json(answer)
        return self.plain.key(answer)


def names() -> list[str]:
    """Return the names of all answer spaces, of other packages too."""
    return list(plugins.names("space"))


def space(spec: str, **options: object) -> Space:
    """Return the answer space of a spec; ``options`` are added to the spec's.

    Words for "no answer" abstain; the option ``keep`` names those that are answers (``text:keep=NA``).
    Raises TaskError for an unknown name or option, PluginError for a missing extra.
    """
    name, given = parse(spec)
    given |= options
    keep = given.pop("keep", ())
    if not plugins.has("space", name):
        raise TaskError(unknown("answer space", name, names()))
    try:
        made = complete(plugins.load("space", name, **given), name)
        kept, documents = _answer_words(made, keep), name in ONE_VALUE | {"list", "set"}
        made = OfDocuments(made) if documents else made
        return made if name in _EVERY_WORD else Abstaining(made, kept, documents=documents)
    except PluginError as error:
        # A missing package is no wrong spec: its line says what to install.
        raise (error if error.__cause__ else TaskError(f"answer {error}")) from error.__cause__
    except (TypeError, ValueError) as error:
        raise TaskError(f"answer space {name}: {error}") from error


def keeping(spec: str, kept: Sequence[str]) -> str:
    """Return the spec of a space in which more words that say "no answer" elsewhere are answers."""
    name, options = parse(spec)
    if "inner" in options or name in ("list", "set"):
        # Such a word stands for an item.
        options["inner"] = keeping(str(options.get("inner", "text")), kept)
    else:
        own = cast("str | Sequence[str]", options.pop("keep", ()))
        options["keep"] = ",".join(kept := list(dict.fromkeys([*words(own), *kept])))
        if any(set(word) & set(",=") for word in kept):
            options["keep"] = kept
    if all(isinstance(value, str) for value in options.values()):
        return f"{name}:{','.join(f'{option}={value}' for option, value in options.items())}"
    return f"{name}:{json.dumps(options, ensure_ascii=False)}"


def _answer_words(made: Space, keep: object) -> list[str]:
    """Return the words that are answers of a space: those asked for, labels, and None where it is a value."""
    if not isinstance(keep, str | list | tuple):
        raise TypeError(f"keep names words, such as keep=NA, not {keep!r}")
    labels = getattr(made, "labels", ())
    # A list of one item is written like the item.
    said = [*labels, *getattr(made, "options", ()), *getattr(getattr(made, "inner", None), "keep", ())]
    if isinstance(labels, Mapping):
        table = cast("Mapping[str, Sequence[str]]", labels)
        said += [each for synonyms in table.values() for each in synonyms]
    return [
        *words(cast("str | Sequence[str]", keep)),
        *said,
        *(["None"] if made.name in _NONE_IS_A_VALUE else []),
    ]


def of_unknown_options(spec: str, question: str = "") -> Space:
    """Return the choice space for questions whose options are only in their text.

    ``choice`` has A to E, or the letters of the options that the question lists where these are more.
    """
    return choice_of(options_listed(question)) if spec == "choice" else space(spec)


def options_listed(question: str) -> tuple[str, ...]:
    """Return the letters of the options listed in a question, from A on, one per line."""
    return tuple(takewhile(set(_LISTED.findall(question[-LONGEST_QUESTION:])).__contains__, ascii_uppercase))


@lru_cache(maxsize=256)
def choice_of(labels: tuple[str, ...]) -> Space:
    """Return the choice space of these labels; of A to E where they are fewer letters."""
    return space("choice", labels=LETTERS if set(labels) <= set(LETTERS) else labels)


# The answer spaces that are parts of others.
cached = lru_cache(maxsize=256)(space)


def parse(spec: str) -> tuple[str, Object]:
    """Return name and options of a spec; raises TaskError when malformed."""
    name, colon, rest = spec.partition(":")
    name = name.strip()
    if not colon:
        return name, {}
    if rest.lstrip().startswith("{"):
        try:
            return name, cast("Object", json.loads(rest))
        except (ValueError, RecursionError) as error:
            raise TaskError(f"answer space {name}: its options are not JSON: {error}") from None
    options: Object = {}
    last = ""
    before, inner, nested = _split_inner(rest)
    for piece in before.split(",") if before else ():
        option = _OPTION.fullmatch(piece)
        if option is not None:
            last = option[1]
            options[last] = option[2].strip()
        elif last:
            options[last] = f"{options[last]},{piece.strip()}"
        else:
            raise TaskError(f"answer space {spec!r}: write it as name:option=value,option=value")
    return name, options | ({"inner": nested.strip()} if inner else {})


def _split_inner(rest: str) -> tuple[str, str, str]:
    """Split a spec at ``inner=``, whose value takes the rest."""
    match = re.search(r"(?:^|,)\s*inner\s*=", rest)
    return (rest, "", "") if match is None else (rest[: match.start()], match[0], rest[match.end() :])


def from_command_line(spec: str) -> str:
    """Return a checked spec, with the table that it names included.

    ``label:table=FILE`` names a JSON object (label -> list of synonyms). Only here is a file opened: a spec
    of a plan, run or log never names one. Raises UsageError.
    """
    name, options = parse(spec)
    file = options.pop(_TABLE, None)
    if file is not None:
        options["labels"] = _table(Path(str(file)))
        spec = f"{name}:{json.dumps(options, ensure_ascii=False, sort_keys=True)}"
    space(spec)
    return spec


def _table(file: Path) -> Mapping[str, list[str]]:
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the table {file} cannot be read: {error}") from None
    if len(text) > LARGEST_TABLE:
        raise UsageError(f"the table {file} has more than {LARGEST_TABLE:,} characters")
    try:
        return cast("Mapping[str, list[str]]", json.loads(text))
    except ValueError as error:
        raise UsageError(f"the table {file} is not JSON: {error}") from None
