"""Interface of answer spaces, and the part of a text in which answers are looked for.

Look-alike characters (digits of other scripts, full-width letters, Unicode minus, thin spaces, direction
marks) are folded to the ASCII ones that the extractors know.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Protocol, TypeVar, cast, runtime_checkable

from keff.answers.parts.thinking import strip_thinking
from keff.errors import PluginError
from keff.records import frozen

T = TypeVar("T")

# Only so much of the end is searched: final answers stand there, and the time stays bounded.
TAIL = 20_000

# Rewriting ends where a text is seen again; this bounds what a text can make of it that never is.
MOST_ROUNDS = 8


@frozen
class Extracted:
    """A final answer as written, and the name of the extraction rule.

    Rules that name an explicit statement: ``boxed``, ``####``, ``tag``, ``marker``, ``verdict``. All other
    names are heuristics, which are never used on truncated text.
    """

    answer: str
    rule: str


class Space(Protocol):
    """Answer space: how to extract, compare and score answers.

    ``contract`` is the uniform final-answer instruction of the space, appended to a prompt. ``closed`` says
    whether the possible answers are known beforehand. ``key`` is idempotent, and equal keys are equal
    answers: an equivalence relation. ``gold`` is one reference answer or a list of acceptable ones. A space
    may say ``by_key = True``: an answer is right when its key is that of an acceptable answer (``ByKey``),
    so large records are scored by keys.
    """

    @property
    def name(self) -> str:
        """The name of the space."""
        ...

    @property
    def closed(self) -> bool:
        """Whether the set of possible answers is known beforehand."""
        ...

    @property
    def contract(self) -> str:
        """The final-answer instruction."""
        ...

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the final answer in a text; None abstains."""
        ...

    def key(self, answer: str) -> str | None:
        """Return the canonical vote key; None abstains."""
        ...

    def correct(self, answer: str, gold: object) -> bool:
        """Return whether the answer agrees with any acceptable gold answer."""
        ...


@runtime_checkable
class Explains(Protocol):
    """Protocol of spaces that can say why an answer abstains."""

    def why(self, text: str) -> str | None:
        """Return in a few words why a text or answer has no key."""
        ...


class ByKey:
    """Base class of spaces in which an answer is right when its key equals an acceptable answer's."""

    __slots__ = ()
    closed = False

    def key(self, answer: str) -> str | None:
        """Return the canonical vote key; None abstains."""
        raise NotImplementedError

    def correct(self, answer: str, gold: object) -> bool:
        """Return whether the answer's key is that of an acceptable answer."""
        key = self.key(answer)
        return key is not None and any(key == self.key(each) for each in golds(gold))


class SmallSpace(Protocol):
    """Minimal protocol of an answer space from another package."""

    def extract(self, text: str) -> Extracted | str | None:
        """Return the final answer as a string (or as ``Extracted``, with the rule); None abstains."""
        ...

    def key(self, answer: str) -> str | None:
        """Return the canonical vote key; None abstains."""
        ...


@frozen
class Completed(ByKey):
    """A minimal space completed with defaults: truncated text abstains, equal keys are equal answers."""

    small: SmallSpace
    name: str
    closed: bool = False
    contract: str = ""

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the inner space's answer; truncated text abstains."""
        answer = None if truncated else self.small.extract(text)
        return Extracted(answer, self.name) if isinstance(answer, str) else answer

    def key(self, answer: str) -> str | None:
        """Return the inner space's key."""
        return self.small.key(answer)


def complete(made: object, name: str) -> Space:
    """Return a full ``Space`` from one that may have ``extract`` and ``key`` only.

    Raises PluginError when it has not even these.
    """
    if not callable(getattr(made, "extract", None)) or not callable(getattr(made, "key", None)):
        raise PluginError(f"space {name}: it has no extract(text) and key(answer)")
    if all(hasattr(made, each) for each in ("name", "closed", "contract", "correct")):
        return cast("Space", made)
    closed, contract = bool(getattr(made, "closed", False)), str(getattr(made, "contract", ""))
    return Completed(cast("SmallSpace", made), name, closed, contract)


class NotRead(ValueError):
    """Raised where a text has no canonical form, with the reason in a few words."""


class ByForm(ByKey):
    """Base class of spaces whose key is the canonical ``form``, which raises the reason if there is none."""

    __slots__ = ()

    def form(self, answer: str) -> str:
        """Return an answer's canonical form; raises NotRead."""
        raise NotImplementedError

    def key(self, answer: str) -> str | None:
        """Return the answer's canonical form; None abstains."""
        try:
            return self.form(answer)
        except NotRead:
            return None

    def why(self, text: str) -> str | None:
        """Return why a text or an answer abstains; None when it does not."""
        try:
            self.form(text)
        except NotRead as reason:
            return str(reason)
        return None


def last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the last match of a pattern."""
    return next(iter(deque(pattern.finditer(text), maxlen=1)), None)


BRACKETS = re.compile(r"[()\[\]{}]")


def depths(text: str, at: int = 0, tokens: re.Pattern[str] = BRACKETS) -> Iterator[tuple[int, int]]:
    """Yield (depth after it, end) of each bracket in a text."""
    depth = 0
    for token in tokens.finditer(text, at):
        depth += (token[0] in "([{") - (token[0] in ")]}")
        yield depth, token.end()


def nesting(text: str, tokens: re.Pattern[str] = BRACKETS) -> int:
    """Return the maximum depth of brackets."""
    return max((depth for depth, _ in depths(text, 0, tokens)), default=0)


def closing(text: str, at: int = 0, tokens: re.Pattern[str] = BRACKETS) -> int:
    """Return the position where the first bracket from ``at`` on closes; 0 if it does not."""
    return next((end for depth, end in depths(text, at, tokens) if depth == 0), 0)


def height(tree: T, below: Callable[[T], Iterable[T]], most: int) -> int:
    """Return a tree's height, at most ``most`` + 1.

    Without recursion: Python's own limit depends on who calls.
    """
    count, level = 0, [tree]
    while level and count <= most:
        count += 1
        level = [child for node in level for child in below(node)]
    return count


def settled(form: Callable[[str], str], text: str) -> str:
    """Return the fixed point of a rewriting: the form is applied until the text no longer changes.

    Of forms that turn in a circle, the first in the order of strings is returned.
    """
    seen: list[str] = []
    while text not in seen and len(seen) < MOST_ROUNDS:
        seen.append(text)
        text = form(text)
    return min(seen[seen.index(text) :]) if text in seen else text


def golds(gold: object) -> list[str]:
    """Return acceptable answers as strings, from one or a list."""
    if isinstance(gold, list | tuple | set | frozenset):
        return [str(each) for each in cast("Collection[object]", gold)]
    return [str(gold)]


def words(value: str | Sequence[str]) -> tuple[str, ...]:
    """Return a list option: ``a,b`` from a spec, or a sequence."""
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(part.strip() for part in map(str, parts) if part.strip())


MARK = "```"
# A mark begins its line, alone or with a language (```json, ```{python}); a title may follow, but no content.
_MARK_LINE = re.compile(r"^[ \t]*```[ \t\r]*(?:\{?\.?([\w+-]+)[^\n`{\[]*)?$\n?", re.MULTILINE)


@frozen
class Fence:
    """A fenced code block: language (lower case), content, start and end."""

    language: str
    content: str
    start: int
    end: int


def fences(text: str, *, unclosed: bool = False) -> Iterator[Fence]:
    """Yield closed fenced blocks in order, then an unclosed last one where it counts."""
    opened: re.Match[str] | None = None
    for mark in _MARK_LINE.finditer(text):
        if opened is not None:
            yield _fence(opened, mark.start(), mark.end())
            # A mark with a language opens the next block: the one before was never closed.
        opened = mark if opened is None or mark[1] else None
    if opened is not None and unclosed:
        yield _fence(opened, len(text), len(text))


def _fence(opened: re.Match[str], stop: int, end: int) -> Fence:
    content = opened.string[opened.end() : stop].strip("\n")
    return Fence((opened[1] or "").lower(), content, opened.start(), end)


# Up to here replacing one character after the other is faster than a table for all.
MOST_REPLACEMENTS = 50

# The difference of sets finds the few characters of a text that need a look.
_ASCII = frozenset(map(chr, range(128)))

# Typographic spaces between groups of three digits; ordinary ones are left to the number parser.
_GROUP_SPACE = re.compile(r"(?<=\d)[\u00a0\u2007\u2009\u202f](?=\d{3}(?!\d))")
# Look-alikes that models write for one and the same sign: otherwise equal answers vote apart.
_FOLDS = {
    **dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\ufe63\uff0d\u2796", "-"),
    **dict.fromkeys("\u2018\u2019\u201b\u2032\u00b4", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u2033\u00ab\u00bb", '"'),
    **dict.fromkeys("\u00d7\u22c5\u00b7\u2217", "*"),
    **dict.fromkeys("\u2044\u2215\u00f7", "/"),
    # Arabic separators of decimals and thousands, and the percent sign.
    "\u066b": ".",
    "\u066c": ",",
    "\u066a": "%",
    **dict.fromkeys("\u2028\u2029\u0085", "\n"),
    **{chr(code): f"^{i}" for i, code in enumerate((0x2070, 0xB9, 0xB2, 0xB3, *range(0x2074, 0x207A)))},
}
_RAISED = {sign: plain[1:] for sign, plain in _FOLDS.items() if plain[0] == "^"} | {"\u207b": "-"}
# Several raised digits are one exponent: x¹² is x^{12}, never x^1^2.
_RAISED_RUN = re.compile(f"[{''.join(_RAISED)}]{{2,}}")


@lru_cache(maxsize=4096)
def _fold_character(character: str) -> str:
    if character in _FOLDS:
        return _FOLDS[character]
    category = unicodedata.category(character)
    if category in ("Cf", "Cc"):
        return ""
    if category == "Cs":
        return "\ufffd"
    if category == "Zs":
        return " "
    if category == "Nd":
        return str(unicodedata.decimal(character))
    plain = unicodedata.normalize("NFKC", character)
    if category == "No" and "\u2044" in plain:
        return " " + plain.replace("\u2044", "/")
    return plain if plain.isascii() and "\uff01" <= character <= "\uff5e" else character


def fold(text: str) -> str:
    """Return the text with look-alike characters folded to ASCII, without NULs and invisible marks."""
    if text.isascii():
        return text.replace("\0", "") if "\0" in text else text
    text = _GROUP_SPACE.sub("", text)
    text = _RAISED_RUN.sub(lambda run: f"^{{{''.join(_RAISED[sign] for sign in run[0])}}}", text)
    folded = {c: _fold_character(c) for c in set(text) - _ASCII}
    changes = {c: plain for c, plain in folded.items() if c != plain}
    if len(changes) > MOST_REPLACEMENTS:
        return text.translate(str.maketrans(changes)).replace("\0", "")
    for character, plain in changes.items():
        text = text.replace(character, plain)
    return text.replace("\0", "")


def visible(text: str) -> str:
    """Return the text that extractors see: without thinking, folded to ASCII."""
    return fold(strip_thinking(text))
