"""Option labels in prose, told apart from the article "A", the pronoun "I" and "vitamin C"."""

from __future__ import annotations

import re
from functools import lru_cache

from keff.answers._base import last_match

_NOUNS = (
    "vitamin hepatitis type group point plan figure table person class grade part step section team player"
)
_NOT_NAMED = "".join(f"(?<![{noun[0].upper()}{noun[0]}]{noun[1:]}\\s)" for noun in _NOUNS.split())
_REJECTION = (
    r"(?![^\w\n]{0,4}(?:[^.\n]{0,60}?\s)?(?:is|are|was|would be|seems?)\s(?:\w{1,12}\s){0,2}?"
    r"(?:wrong|incorrect|false|not|ruled|eliminated|invalid|unlikely|irrelevant)\b)"
)
_AFTER_LABEL = (
    r"because|since|as|is|and|or|but|which|for|due|by|based|then|while|however|not|here|would|the|an|it|they|he|she|"
    r"this|that|these|those|there|in|on|at|to|from|when|if|with|has"
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z(])|\n+")
_LINK = r"[\s*_(\[\"'`:$]{0,8}(?:\\text\{)?[( ]{0,2}(?:option\s|choice\s)?[*( ]{0,4}"


class Labels:
    """Reads the labels of one set, such as A to D or 1 to 4; its patterns are compiled once.

    Bare labels in prose are read only if all labels are letters, because a bare digit is most often a
    number.
    """

    def __init__(self, labels: tuple[str, ...]) -> None:
        names = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
        self._canonical = {label.lower(): label for label in labels}
        letters = all(label.isalpha() for label in labels)
        article = rf"(?!(?<=[AI])\s+(?!(?:{_AFTER_LABEL})\b)[a-z])" if letters else ""
        end = r"(?![\w'/-]|\.\w|,\d)"
        lead = r"\W*(?:(?:option|choice|letter|number|answer)\W{1,3})?"
        self._whole = re.compile(rf"{lead}({names})\W*", re.IGNORECASE)
        self._listed = re.compile(rf"{lead}({names})[)\].:](?!\w)\W{{0,3}}", re.IGNORECASE)
        self._first = re.compile(rf"(?i:{lead})({names}){end}{article}")
        self._decorated = re.compile(
            rf"(?<![\w'.-]){_NOT_NAMED}(?:\(({names})\)|\[({names})\]|({names})\)){_REJECTION}"
        )
        self._bare = re.compile(
            rf"(?<![\w'./-]){_NOT_NAMED}({names}){end}{article}{_REJECTION}" if letters else "(?!)"
        )
        self._rejected = re.compile(
            rf"\b(?:not|neither|nor|rather than|instead "
            rf"of|isn't)\s+(?:option\s+|choice\s+)?\(?(?:{names})\)?(?![\w'])"
        )
        adjective = r"(?:correct|best|right|most\ likely|most\ appropriate)"
        self._verdict = re.compile(
            rf"""\b(?:{adjective}\s(?:option|choice|statement|response|one|letter)(?:\shere)?(?:\sis|\swould\sbe|:|\sis:)
              |choose|pick|select|go(?:ing)?\swith|went\swith)\b{_LINK}({names}){end}{article}
              |(?<![\w'./-]){_NOT_NAMED}({names}){end}{article}(?:(?!\b(?:{names})\b)[^.\n]){{0,60}}?\sis\s(?:(?:clearly|thus|therefore|definitely|indeed)\s)?
              (?:the\s(?:most\s)?)?{adjective}\b(?!\?)""",
            re.VERBOSE,
        )

    def _name(self, match: re.Match[str]) -> str:
        return self._canonical[next(group for group in match.groups() if group).lower()]

    def whole(self, text: str) -> str | None:
        """Return the label that is all the text says, or that stands before an option: "(b)", "B) Paris"."""
        match = self._whole.fullmatch(text) or self._listed.match(text)
        return self._name(match) if match else None

    def stated(self, payload: str) -> str | None:
        """Return the label that a statement names: one at its beginning, then decorated, then bare."""
        payload = self._rejected.sub(" ", payload[:500])
        if whole := self.whole(payload.strip()):
            return whole
        match = self._first.match(payload) or self._decorated.search(payload) or self._bare.search(payload)
        return self._name(match) if match else None

    def verdict(self, text: str) -> tuple[int, str] | None:
        """Return place and label of the last verdict.

        "the correct option is B", "I choose B", "(B) is right".
        """
        last = last_match(self._verdict, text)
        return (last.start(), self._name(last)) if last else None

    def last(self, text: str) -> str | None:
        """Return the label of the last sentence that names any, if it names only one.

        Decorated before bare.
        """
        text = self._rejected.sub(" ", text)
        sentences = _SENTENCE.split(text)[-20:]
        for pattern in (self._decorated, self._bare):
            for sentence in reversed(sentences):
                named = {self._name(match) for match in pattern.finditer(sentence)}
                if named:
                    return named.pop() if len(named) == 1 else None
        return None


@lru_cache(maxsize=256)
def reader(labels: tuple[str, ...]) -> Labels:
    """Return the reader of one set of labels."""
    return Labels(labels)
