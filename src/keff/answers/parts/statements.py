r"""Explicit statements of a final answer in a text, last one first; Markdown and simple LaTeX removed.

Known are ``#### x``, ``\boxed{x}``, ``<answer>x</answer>``, ``[ANSWER]x[/ANSWER]``, "Final answer: x",
"**Answer:** x", "the answer is x", "the answer to the question is x", and at the beginning of a line
"Antwort: x", "答案：x" and the like. Candidates are found with str.rfind and read in a bounded window, so the
time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from keff.answers.parts.base import Extracted, closing
from keff.answers.parts.number_words import JOIN, UNSPACED, forms

# 60 characters a side: a fraction that is an answer is short, and the search for a brace is bounded.
_FRACTION = re.compile(
    r"\\[dtc]?frac\s*(?:\{\s*([^{}]{1,60}?)\s*\}|(\d))\s*(?:\{\s*([^{}]{1,60}?)\s*\}|(\d))"
)
_WRAPPED = re.compile(
    r"\\(?:text|textbf|textit|textrm|texttt|mathrm|mathbf|mathit|mathsf|mathbb|mbox|boxed|fbox|underline|operatorname)"
    r"\s*\{([^{}]{0,500})\}"
)
# A space keeps the whole part apart: 3\frac{1}{2} is 3 1/2, not 31/2.
_MIXED = re.compile(r"(?<=\d)\s*(?=\\[dtc]?frac)")
_SPACING = re.compile(r"\\(?:left|right|displaystyle|quad|qquad|[bB]igg?[lr]?)(?![a-zA-Z])|\\[,;: ]|~|\\\n")
_DELIMITER = re.compile(r"\\[()\[\]]")
_NAMES = {
    r"\times": " * ",
    r"\cdot": " * ",
    r"\approx": " ≈ ",
    r"\%": "%",
    r"\$": "$",
    r"\#": "#",
    r"\&": "&",
    r"\_": "_",
    r"\{": "{",
    r"\}": "}",
    r"\!": "",
    "{,}": ",",
}
_NAME = re.compile(
    "|".join(
        # Spaces around a sign of multiplication, so that no star is left that looks like emphasis.
        rf" *{re.escape(name)}(?![a-zA-Z]) *" if name[-1].isalpha() else re.escape(name)
        for name in _NAMES
    )
)
# A dollar sign before a number is an amount; any other delimits mathematics.
_MONEY_OR_MATH = re.compile(r"(?=\$)(?:\$+(?!\s?[-+]?\.?\d)|(?<=[\d}])\$+)")
# Double signs are emphasis anywhere, single ones at the edge of a word: within one (a_b, 2*3) they mean
# something.
_MARKDOWN = re.compile(r"(?=[*_`])(?:[*_]{2,3}|`+|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w))")


# 10**6 is a power: emphasis does not begin and end between two digits.
_POWER = re.compile(r"(?<=\d)\*\*(?=\d+(?!\d|\*\*))")


def unlatex(text: str) -> str:
    r"""Return text with simple LaTeX in plain form: 1/2, 3 1/2, and no delimiters."""
    if "\\" not in text and "{,}" not in text:
        return text
    text = _NAME.sub(lambda match: _NAMES[match[0].strip()], text)
    text = _SPACING.sub(" ", text)
    text = _MIXED.sub(" ", text)
    for _ in range(3):
        text, count = _WRAPPED.subn(r"\1", text)
        if not count:
            break
    text = _FRACTION.sub(lambda match: f"{match[1] or match[2]}/{match[3] or match[4]}", text)
    return _DELIMITER.sub(" ", text)


def plain(text: str) -> str:
    """Return text without LaTeX, math delimiters and markdown emphasis; a dollar sign of an amount stays."""
    text = unlatex(text)
    if "$" in text:
        text = _MONEY_OR_MATH.sub("", text)
    if "**" in text:
        text = _POWER.sub("^", text)
    if "*" in text or "_" in text or "`" in text:
        text = _MARKDOWN.sub("", text)
    return text


_EMPHASIS = re.compile(r"\s*([*_]{1,3})([^*_`]+)\1\.?\s*")


def unemphasized(text: str) -> str:
    """Return what stands between the markdown emphasis around a text; the text where there is none."""
    match = _EMPHASIS.fullmatch(text)
    return match[2].strip() if match else text


# What stands before a label that is not the one meant, in some languages.
REJECTING = (
    r"(?i:not|isn't|aren't|wasn't|neither|nor|never|no longer|rather than|instead of|unlike|except(?: for)?"
    r"|excluding|other than|(?:anything|everything|any|all) but"
    r"|nicht|weder\s+\S{1,40}\s+noch|weder|außer|pas|sauf|excepto|salvo|tranne|não|niet|не|кроме)"
)

# What stands between sentences.
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
# Of a text that states answer after answer the last ones count.
MOST_STATEMENTS = 50
# Characters after a marker in which its answer stands.
WINDOW = 2000

# What may follow "answer" before the payload. Every part is bounded, so the time stays linear.
_AFTER_ANSWER = re.compile(
    r"""s?["')\]*_`]{0,6}
    (?:\s?\([^()\n]{0,40}\))?
    (?:[ ](?:choice|option|letter|key|value|here|to|for|of)\b[^.:\n?!,]{0,80}?)?
    [ *_"'`]{0,6}
    (?:(?P<sign>:|=|->|→)|,?[ ]?(?:\b(?:then|therefore|thus|so),?[ ])?
    \b(?:is|are|was|equals|(?:would|should|must|will|has[ ]to)[ ]be)\b(?:[ *_"'`]{0,6}:)?)
    [*_"'`]{0,6}""",
    re.VERBOSE,
)
_BRACES = re.compile(r"(?<!\\)[{}]")
# Characters before a box or tag in which another one must stand to be joined with it.
_NEAR = 300
_BULLET = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s+")
_BOXED = re.compile(r"\\f?boxed\s?\{([^{}]{1,200})\}")
_BOXES = re.compile(
    rf"(?:{_BOXED.pattern}[\s$*.\\()\[\],]{{0,12}}(?:{JOIN}[\s$*\\()\[\]]{{0,8}})?(?:[a-z]\s?=\s?)?)+$"
)
_TAG = re.compile(r"[<\[]answer[>\]]([^<\[]{1,200})[<\[]/answer[>\]]", re.IGNORECASE)
_TAGS = re.compile(rf"(?:{_TAG.pattern}[\s$]{{0,4}}(?:,|{JOIN})?[\s$]{{0,4}})+$", re.IGNORECASE)
# The answer stands in the lines below a heading that says "Answer".
_HEADING = re.compile(r"[*_\s:]{0,6}\n")
# Only at the beginning of a line does "answer:" leave no doubt; within one it may be about a step.
_LINE_START = re.compile(r"(?:^|\n)[ \t>#*_\-`]*(?:(?:my|the|final|correct|short)[ ]+)?$", re.IGNORECASE)
_BEFORE_FINAL, LONGEST_FINAL = re.compile(r"\b(?:final|correct)[ *_]{1,5}$", re.IGNORECASE), 13
# "Answer" in other languages; not where the word begins a whole reply as often, such as 回答.
_ELSEWHERE = """
    antwort, antwoord, réponse, respuesta, risposta, resposta, răspuns, ответ, відповідь, отговор, odgovor,
    odpověď, odpoveď, odpowiedź, svar, vastaus, vastus, válasz, atsakymas, atbilde, απάντηση, cevap, yanıt,
    jawaban, jawapan, jibu, الجواب, الإجابة, پاسخ, תשובה, उत्तर, উত্তর, பதில், விடை, సమాధానం, జవాబు, คำตอบ,
    答案, 答え, 정답, 답, đáp án
"""
# Up to two words before it on its line, and two behind it: "Die richtige Antwort:", "Réponse finale est :".
_BEFORE_ELSEWHERE = re.compile(
    rf"(?:^|\n)[ \t>#*_\-`【]*(?:(?![{UNSPACED}])[^\W\d_]{{1,15}}[ ,]{{1,2}}){{0,2}}[{UNSPACED}，, ]{{0,8}}$"
)
_AFTER_ELSEWHERE = re.compile(
    r"(?:是|为|為|は|은|는|คือ|(?:[ ][^\W\d_]{2,12}){0,2})[ ]?[*_`\"')\]】」]{0,6}[ ]?[:：][*_`]{0,6}"
)
# The prompt quoted back, such as <your answer>: it states nothing.
_PLACEHOLDER = re.compile(r"\W*(?:boxed\W{1,2})?<[a-zA-Z ]{1,30}>\W*")
_FORMAT = "*_`#> \t\r"


class Statement(NamedTuple):
    """A place in a text that states the answer.

    ``at`` is where it stands, ``payload`` what it says (one line, or a box's content), ``rule`` which form it
    has, ``strong`` whether the form leaves no doubt that a final answer follows, ``open`` whether the payload
    runs up to the end of the text, where a truncated text may have lost a part of it.
    """

    at: int
    payload: str
    rule: str
    strong: bool
    open: bool


def statements(text: str) -> Iterator[Statement]:
    """Yield a text's explicit statements, last first."""
    lower, found = _last_places(text)
    places = dict(found)
    for _ in range(MOST_STATEMENTS):
        if not places:
            return
        word = max(places, key=places.__getitem__)
        at = places.pop(word)
        statement = _READERS[word](text, at, at + len(word))
        if (
            statement is not None
            and statement.payload.strip()
            and not _PLACEHOLDER.fullmatch(statement.payload)
        ):
            yield statement
        if (before := lower.rfind(word, 0, at)) >= 0:
            places[word] = before


@lru_cache(maxsize=2)  # one text is asked for its statements several times in a row
def _last_places(text: str) -> tuple[str, dict[str, int]]:
    """Return a text in lower case, and the last place of each word that begins a statement."""
    lower = text.lower()
    # Lower case may be longer (İ becomes two characters); then places would not fit the text.
    if len(lower) != len(text):
        lower = text
    return lower, {word: at for word in _READERS if (at := lower.rfind(word)) >= 0}


def items(text: str, statement: Statement) -> tuple[str, str]:
    """Return a statement's payload and the line below it, without bullets where both have them."""
    # Behind the word that begins the statement: in "Answer" an A is no payload.
    lower, _ = _last_places(text)
    word = next((word for word in _READERS if lower.startswith(word, statement.at)), "")
    start = text.find(statement.payload, statement.at + len(word))
    lines = text[start : start + WINDOW].split("\n", 2) if start >= 0 else []
    if len(lines) < 2 or not lines[1].strip():
        return statement.payload, ""
    bullets = [_BULLET.match(line) for line in lines[:2]]
    if bullets[0] and bullets[1]:
        return lines[0][bullets[0].end() :], lines[1][bullets[1].end() :]
    return statement.payload, lines[1]


def last_place(text: str) -> int:
    """Return where the last word stands that may begin a statement; -1 where there is none."""
    return max(_last_places(text)[1].values(), default=-1)


def stated(text: str, read: Callable[[Statement], str | None], *, truncated: bool) -> Extracted | None:
    """Return what ``read`` finds in the last statement that has an answer; None without one.

    Of truncated text a statement that runs up to its end may have lost a part, and is not read.
    """
    for statement in statements(text):
        if not (truncated and statement.open) and (answer := read(statement)):
            return Extracted(answer, statement.rule)
    return None


def _line(text: str, at: int) -> tuple[str, bool]:
    """Return the rest of the line, or the next nonblank line, and whether the text ends there."""
    for _ in range(4):
        end = text.find("\n", at, at + WINDOW)
        stop = min(at + WINDOW, len(text)) if end < 0 else end
        payload = text[at:stop]
        if payload.strip(_FORMAT + "$[\\:"):
            return payload, end < 0 and stop == len(text)
        at = stop + 1
    return "", True


def _hash(text: str, at: int, after: int) -> Statement | None:
    payload, is_open = _line(text, after)
    return Statement(at, payload, "####", False, is_open) if text[after : after + 1] != "#" else None


def _box_at(text: str, at: int, after: int) -> Statement | None:
    opening = text[after : after + 1]
    if opening != "{":
        word = re.compile(r"\s+([^\s$]{1,40})").match(text, after)
        return Statement(at, word[1], "boxed", True, word.end() == len(text)) if word else None
    window = text[after : after + WINDOW]
    end = closing(window, 0, _BRACES)
    content = window[1 : end - 1] if end else window[1:].partition("\n")[0].rstrip("$ .")
    at, content = _with_those_before(text, at, content, _BOXED, _BOXES, "boxed")
    return Statement(at, content, "boxed", True, not end)


def _with_those_before(
    text: str, at: int, content: str, one: re.Pattern[str], run: re.Pattern[str], sign: str
) -> tuple[int, str]:
    """Return where a box or tag and those before it begin, and their contents.

    Those with nothing but "and" between them are one statement of several answers, if they differ.
    """
    near = sign in text[max(0, at - _NEAR) : at].lower()
    before = run.search(text, max(0, at - WINDOW), at) if near else None
    contents = [*one.findall(before[0]), content] if before else [content]
    if before is None or len({each.strip() for each in contents}) < 2:
        return at, content
    return before.start(), ", ".join(contents)


def _answer(text: str, at: int, after: int) -> Statement | None:
    if text[after : after + 1] in (">", "]") and text[at - 1 : at] in ("<", "["):
        end = text.find(f"{text[at - 1]}/{text[at:after]}", after, after + WINDOW)
        payload = text[after + 1 : end] if end >= 0 else text[after + 1 : after + WINDOW]
        begin, payload = _with_those_before(text, at - 1, payload, _TAG, _TAGS, "/answer")
        return Statement(begin + 1, payload, "tag", True, end < 0)
    final = _BEFORE_FINAL.search(text, max(0, at - LONGEST_FINAL), at) is not None
    link = _AFTER_ANSWER.match(text, after)
    if link is None:
        heading = _HEADING.match(text, after) if _begins_line(text, at) else None
        if heading is None:
            return None
        payload, is_open = _line(text, heading.end())
        return Statement(at, payload, "marker", final, is_open)
    payload, is_open = _line(text, link.end())
    strong = final or (link["sign"] == ":" and _begins_line(text, at))
    return Statement(at, payload, "marker", strong, is_open)


def _answer_elsewhere(text: str, at: int, after: int) -> Statement | None:
    """Return what follows the word and a colon, where they begin a line."""
    link = _AFTER_ELSEWHERE.match(text, after)
    if link is None or not _BEFORE_ELSEWHERE.search(text[max(0, at - 40) : at]):
        return None
    payload, is_open = _line(text, link.end())
    return Statement(at, payload, "marker", True, is_open)


def _begins_line(text: str, at: int) -> bool:
    # Room for a few words before "answer", such as "my final".
    return _LINE_START.search(text[max(0, at - 40) : at]) is not None


_READERS = {
    "answer": _answer,
    "\\boxed": _box_at,
    "\\fbox": _box_at,
    "####": _hash,
    **{word: _answer_elsewhere for each in _ELSEWHERE.split(",") for word in forms(each.strip())},
}
