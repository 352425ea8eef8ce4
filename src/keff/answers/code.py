"""Python programs, compared as text; running and scoring them is the task's sandbox's work."""

from __future__ import annotations

import re

from keff.answers.parts.base import MARK, ByKey, Extracted, fences
from keff.answers.parts.thinking import strip_thinking
from keff.records import frozen

# Longer ones are not parsed: this bounds the time that a hostile answer can take.
MOST_CHARACTERS = 200_000

# Triple-quoted strings only: shorter ones cannot hold the blank lines that the key leaves out.
_STRING = re.compile(r"(\"{3}|'{3})(?:\\.|(?!\1)[^\\])*\1", re.DOTALL)
_INDENT = re.compile(r"^[ \t]+")
# The marks that models give a Python block; none at all is the most frequent one.
_PYTHON = frozenset(("", "python", "py", "python3", "python2", "ipython"))
# What begins a bare program; an assignment would also begin a formula or a sentence.
_CODE_LINE = re.compile(r"(?:def|class|import|from|async def)\s+\w|@\w")
# What ends a bare program: three words of a sentence, a heading, or what models write behind their code.
_PROSE_LINE = re.compile(r"[A-Z][a-z]+(?:\s+[a-z']+){2,}|#{2,}\s|\*\*|\[DONE\]|Explanation|Note:")


@frozen
class CodeSpace(ByKey):
    """The key is the program without blank lines and trailing whitespace, those of its strings apart.

    It says that two programs are the same text. Tasks that can execute code vote on what programs return.
    """

    name = "code"
    by_key = True
    contract = "End with the complete program in one ```python block."

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the last fenced Python block with a definition, else the last one, else bare code.

        A block that does not close is read to the end, unless the text is truncated.
        """
        text = strip_thinking(text)[-MOST_CHARACTERS:].replace("\0", "").replace("\r\n", "\n")
        blocks = [
            block.content.rstrip()
            for block in fences(text, unclosed=not truncated)
            if block.language in _PYTHON and block.content.strip()
        ]
        if blocks:
            defining = [block for block in blocks if re.search(r"^\s*(?:def|class)\s", block, re.MULTILINE)]
            return Extracted((defining or blocks)[-1], "fence")
        return None if truncated or MARK in text else _bare(text)

    def key(self, answer: str) -> str | None:
        """Return the program without blank lines and trailing whitespace; None if nothing is left."""
        strings = list[str]()
        source = answer.replace("\0", "").replace("\r\n", "\n")
        # Within a string blank lines and tabs are a part of the value.
        outside = _STRING.sub(lambda string: strings.append(string[0]) or "\0", source)
        lines = (
            _INDENT.sub(lambda indent: indent[0].expandtabs(4), line.rstrip()) for line in outside.split("\n")
        )
        kept = "\n".join(line for line in lines if line)
        return re.sub("\0", lambda _: strings.pop(0), kept) or None


def _bare(text: str) -> Extracted | None:
    lines = text.split("\n")
    first = next((i for i, line in enumerate(lines) if _CODE_LINE.match(line)), None)
    if first is None:
        return None
    last = next((i for i in range(first, len(lines)) if _PROSE_LINE.match(lines[i])), len(lines))
    return Extracted("\n".join(lines[first:last]).rstrip(), "bare code")


space = CodeSpace
