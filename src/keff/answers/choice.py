"""The label of one of several options, not to be confused with words in "A plant" and "vitamin C"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache

from keff.answers.parts.base import TAIL, ByKey, Extracted, fold, last_match, visible, words
from keff.answers.parts.number_words import JOIN, UNSPACED
from keff.answers.parts.statements import REJECTING, items, plain, statements
from keff.errors import TaskError
from keff.narrow import only
from keff.records import frozen

# Nouns that a capital letter or a number completes: "vitamin C" and "group 2" name no option.
_NOUNS = (
    "vitamin hepatitis type group point plan figure table person class grade part step section team player"
)
# One look-behind per noun, for a look-behind must have a fixed width; the first letter in either case.
_NOT_NAMED = "".join(f"(?<![{noun[0].upper()}{noun[0]}]{noun[1:]}\\s)" for noun in _NOUNS.split())
# "(B) is wrong" names B to leave it out. Windows are bounded, so the time stays linear.
_REJECTION = (
    r"(?![^\w\n]{0,4}(?:[^.\n]{0,60}?\s)?(?:is|are|was|would be|seems?)\s(?:\w{1,12}\s){0,2}?"
    r"(?:wrong|incorrect|false|not|ruled|eliminated|invalid|unlikely|irrelevant)\b)"
    r"(?![)）]?(?:选项|選項|项|項)?[是也都]?(?:错|錯|不对|不對|不正[确確]|有误|排除|は誤|は間違|ではな))"
)
# After A or I these words show that the letter was a label, not an article or a pronoun.
_AFTER_LABEL = (
    r"because|since|as|is|and|or|but|which|for|due|by|based|then|while|however|not|here|would|the|an|it|they|he|she|"
    r"this|that|these|those|there|in|on|at|to|from|when|if|with|has"
)
# A capital or a bracket must follow: "approx. 3" and "e.g. this" end no sentence.
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z(])|(?<=[。！？；])|\n+")
# What may stand between "the answer is" and the label: Markdown, quotes, LaTeX, the word "option".
_LINK = r"[\s*_(\[\"'`:$]{0,8}(?:\\text\{)?[( ]{0,2}(?:option\s|choice\s)?[*( ]{0,4}"


# A label behind a letter or a hyphen is a part of a word; scripts without spaces write it so (答案是B).
_ALONE = rf"(?<![^\W{UNSPACED}])(?<!['-])"
# What joins the labels of a statement that names several.
_JOIN = (
    r"(?:[,;/+|，；\\∧∨∪=~]|-{1,2}>?|[→—…]|\b(?:and/or|as well as|along with|together with|nor|plus|xor|then"
    r"|followed by|versus|vs\.?|to|through|thru|sowie|bzw\.?|bis|ed|ile|a także|আর|किंवा"
    r"|but(?= also| \(?\w\)? (?:is|are) (?:also|equally|right|correct|true)))\b"
    rf"|하고|跟|同|以及|还有|還有|或者|{JOIN})"
)
_SOFTLY = r"(?:(?:also|both|either|even|maybe|perhaps|possibly|option|choice|answer|选项|選項) ?){0,2}"
_WRONG = (
    r"(?:is|are|was|were|would be|seems?) (?:\w{1,12} ){0,2}?"
    r"(?:wrong|incorrect|false|not|ruled|eliminated|invalid|unlikely|irrelevant)\b"
)
# What every verdict holds: looked for first, in a twentieth of the time.
_VERDICT = re.compile(r"correct|best|right|most\s|choose|pick|select|(?:go|going|went)\swith")


class Labels:
    """Finds the labels of one set (A to D, 1 to 4) in text, by precompiled patterns.

    Bare labels in prose are read only if all labels are letters, because a bare digit is most often a
    number.
    """

    def __init__(self, labels: tuple[str, ...]) -> None:
        names = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
        self._canonical = {label.lower(): label for label in labels}
        letters = all(label.isalpha() for label in labels)
        # "A plant" and "I think" hold no label: a lower-case word follows that is none of ``_AFTER_LABEL``.
        article = rf"(?!(?<=[AI])\s+(?!(?:{_AFTER_LABEL})\b)[a-z])" if letters else ""
        # Not "B-cell", "A/B", "3.5" or "1,000": there the label is a part of something longer.
        end = rf"(?![^\W{UNSPACED}]|['/-]|\.\w|,\d)"
        lead = r"\W*(?:(?:option|choice|letter|number|answer)\W{1,3})?"
        self._whole = re.compile(rf"{lead}({names})\W*", re.IGNORECASE)
        self._listed = re.compile(rf"{lead}({names})[)\].:](?!\w)\W{{0,3}}", re.IGNORECASE)
        self._first = re.compile(rf"(?i:{lead})({names}){end}{article}")
        self._decorated = re.compile(
            rf"{_ALONE}(?<![.]){_NOT_NAMED}(?:\(({names})\)|\[({names})\]|({names})\)){_REJECTION}"
        )
        self._bare = re.compile(
            # A pattern that never matches stands for "none": the caller needs no branch.
            rf"{_ALONE}(?<![./]){_NOT_NAMED}({names}){end}{article}{_REJECTION}" if letters else "(?!)"
        )
        named = rf"\s+(?:(?:option|choice|answer)\s+)?\(?(?:{names})\)?(?![\w'])"
        # Once, "ni" is Swahili's "is".
        self._rejected = re.compile(
            rf"\b(?:{REJECTING}{named}|(?i:(ni|né)){named}(?:\W{{1,3}}(?i:\1){named})+)"
        )
        joined = rf"[\s()\[\].:*_`\"']{{0,5}}{_JOIN}\s{{0,2}}(?:{_JOIN}\s{{0,2}})?"
        joined += rf"[\s*_`\"'(\[]{{0,4}}{_SOFTLY}[*_`\"'(\[]{{0,4}}"
        another = rf"(?:{names})(?![A-Za-z0-9_'-]|\.\d)"
        wrong = rf"(?![\W_]{{0,4}}(?:(?:and |or )?\(?(?:{names})\W{{1,4}}){{0,4}}{_WRONG})"
        # Behind the option's text where both are marked: "(A) red and (C) blue".
        apart = r"[)\]][^\n]{1,120}?(?:(?:[,;]|\b(?:and|or))\s{1,3}|\n\s{0,3})"
        apart += rf"(?:\((?:{names})\)|(?:{names})\))"
        self._more = re.compile(rf"(?:{joined}{another}{article}|{apart}){wrong}")
        begins = rf"{_ALONE}(?<![./]){_NOT_NAMED}({names})"
        self._several = re.compile(rf"{begins}(?:{joined}{another}{article}|{apart}){wrong}")
        self._run = re.compile(rf"\W*(?:{names})(?:\s?(?:{names}))+\W*" if letters else "(?!)")
        both = rf"[\s*_`\"']{{0,3}}(?:{_JOIN}\s{{0,3}}[(\[]?(?:{names})[)\]]|[(\[](?:{names})[)\]]"
        both += rf"|(?:and |or )?(?:{names})\W*$)"
        self._listed_both = re.compile(rf"{lead}(?:{names})[)\].,]{both}", re.IGNORECASE)
        adjective = r"(?:correct|best|right|most\ likely|most\ appropriate)"
        self._verdict = re.compile(
            rf"""\b(?:{adjective}\s(?:option|choice|statement|response|one|letter)(?:\shere)?(?:\sis|\swould\sbe|:|\sis:)
              |choose|pick|select|go(?:ing)?\swith|went\swith)\b{_LINK}({names}){end}{article}
              |{_ALONE}(?<![./]){_NOT_NAMED}({names}){end}{article}(?:(?!\b(?:{names})\b)[^.\n]){{0,60}}?\sis\s(?:(?:clearly|thus|therefore|definitely|indeed)\s)?
              (?:the\s(?:most\s)?)?{adjective}\b(?!\?)""",
            re.VERBOSE,
        )

    def _name(self, match: re.Match[str]) -> str:
        return self._canonical[match[_group(match)].lower()]

    def whole(self, text: str) -> str | None:
        """Return the label that makes up a text or precedes an option: "(b)", "B) Paris"."""
        match = self._whole.fullmatch(text) or self._listed.match(text)
        return self._name(match) if match else None

    def stated(self, payload: str) -> str | None:
        """Return the label that a statement names: at its start, else decorated, else bare."""
        # The label stands at the beginning of a statement; further on its reasons name other ones.
        payload = self._rejected.sub(" ", payload[:500])
        if whole := self.whole(payload.strip()):
            return whole
        match = self._first.match(payload) or self._decorated.search(payload) or self._bare.search(payload)
        return self._name(match) if match else None

    def several(self, payload: str) -> bool:
        """Return whether the first labels of a statement are several: "A and C", "either A or B", "A, B"."""
        payload = self._rejected.sub(" ", payload[:500])
        if self._run.fullmatch(payload) or self._listed_both.match(payload):
            return True
        several = self._several.search(payload)
        if several is None:
            return False
        first = self._first.match(payload) or self._decorated.search(payload) or self._bare.search(payload)
        return first is None or several.start(1) <= first.start(_group(first))

    def verdict(self, text: str) -> tuple[int, str] | None:
        """Return position and label of the last verdict, which is "" where it names several.

        "the correct option is B", "I choose B", "(B) is right".
        """
        last = last_match(self._verdict, text) if _VERDICT.search(text) else None
        if last is None:
            return None
        label = _group(last)
        several = self._more.match(text, last.end(label)) or self._listed_both.match(text, last.start(label))
        return last.start(), "" if several else self._name(last)

    def last(self, text: str) -> str | None:
        """Return the label in the last sentence with any, if it is the only one there.

        Decorated before bare.
        """
        text = self._rejected.sub(" ", text)
        # Twenty sentences from the end: a conclusion stands there, and long reasoning names every option.
        sentences = _SENTENCE.split(text)[-20:]
        for pattern in (self._decorated, self._bare):
            for sentence in reversed(sentences):
                named = {self._name(match) for match in pattern.finditer(sentence)}
                if named:
                    return only(named)
        return None


def _group(match: re.Match[str]) -> int:
    """Return the number of the group that holds the label."""
    return next(number for number, group in enumerate(match.groups(), 1) if group)


# The reader of one set of labels.
reader = lru_cache(maxsize=256)(Labels)

_SPACES = re.compile(r"[\W_]+")


@frozen
class ChoiceSpace(ByKey):
    """Answer space of one of the ``labels``, in any case: "(B)", "b.", "B) Paris" are B.

    ``options`` are the option texts in the order of the labels, where known: an answer that repeats an
    option's text instead of its label is that option. A statement of several labels ("A and C") abstains.
    Raises TaskError if their numbers differ.
    """

    labels: tuple[str, ...] = ("A", "B", "C", "D")
    options: tuple[str, ...] = ()
    _texts: dict[str, str] = field(init=False, repr=False, compare=False, default_factory=dict[str, str])
    name = "choice"
    closed = True
    by_key = True
    contract = 'End with a line "Final answer: <letter>".'

    def __post_init__(self) -> None:
        if self.options and len(self.options) != len(self.labels):
            raise TaskError(
                f"{len(self.options)} options do not fit the {len(self.labels)} labels {self.labels}"
            )
        texts = [_squeeze(text) for text in self.options]
        pairs = zip(texts, self.labels, strict=False)
        self._texts.update((text, label) for text, label in pairs if text and texts.count(text) == 1)

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the label of the last explicit statement or verdict.

        Else, on whole text, a last line, label or option text.

        Read as a label are "(B)", "B)", "**B**", "B." and a bare "B"; not the article "A", the pronoun
        "I", nor a label that the text rejects ("not B", "B is wrong").
        """
        text = visible(text)
        read = reader(self.labels)
        start = max(0, len(text) - TAIL)
        at, verdict = read.verdict(text[start:]) or (-1 - start, None)
        for statement in statements(text):
            if verdict is not None and statement.at < start + at:
                break
            payload, below = map(plain, items(text, statement))
            if read.several(payload) or (
                read.whole(payload) and read.whole(below) not in (None, read.whole(payload))
            ):
                return None
            label = read.whole(payload) or self._option(payload) or read.stated(payload)
            if label := label or self._only_option_in(payload):
                return Extracted(label, statement.rule)
        if verdict is not None:
            return Extracted(verdict, "verdict") if verdict else None
        return None if truncated else self._guess(plain(text[start:]).rstrip(), read)

    def _guess(self, tail: str, read: Labels) -> Extracted | None:
        before, last_line = ["", "", *(line for line in tail.split("\n") if line.strip())][-2:]
        if read.several(last_line):
            return None
        if label := read.whole(last_line) or self._option(last_line):
            listing = read.whole(before) not in (None, label)
            return None if listing else Extracted(label, "last line")
        if label := read.last(tail):
            return Extracted(label, "last label")
        label = self._only_option_in(last_line)
        return Extracted(label, "option text") if label else None

    def _option(self, text: str) -> str | None:
        """Return the label of the option with exactly this text."""
        return self._texts.get(_squeeze(text)) if self._texts else None

    def _only_option_in(self, text: str) -> str | None:
        """Return the label of the only option whose text occurs in this text."""
        said = f" {_squeeze(text)} "
        held = [text for text in self._texts if f" {text} " in said]
        held = [text for text in held if not any(text != other and text in other for other in held)]
        return self._texts[held[0]] if len(held) == 1 else None

    def key(self, answer: str) -> str | None:
        """Return the label as written in ``labels``; None for other answers."""
        if answer in self.labels:
            return answer
        # An option is seldom longer; a longer answer is not the text of one.
        payload = plain(fold(answer[:2000])).strip()
        read = reader(self.labels)
        return self._option(payload) or (None if read.several(payload) else read.whole(payload))


def _squeeze(text: str) -> str:
    return _SPACES.sub(" ", text.lower()).strip()


def space(labels: str | Sequence[str] = ("A", "B", "C", "D"), options: Sequence[str] = ()) -> ChoiceSpace:
    """Make the space; see ``ChoiceSpace`` for the options."""
    return ChoiceSpace(words(labels), tuple(options))
