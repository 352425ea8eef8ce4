"""Thinking is cut from a text: the marks of model families as a table, to which a line is easily added.

Cut are segments between marks, one that never closes, everything before a stray closing mark (the opening one
stood in the prompt), and of texts in channels all but the final one.
"""

from __future__ import annotations

import re
from functools import lru_cache

# What thinking is called in marks, in any case, alone or behind a word: <think>, </mm:think>, <antThinking>.
_NAMES = (
    "think thinking thought thoughts reasoning reason scratchpad scratch_pad reflection monologue"
    " internal chain_of_thought cot thought_process thinking_process reasoning_content inner_thoughts"
    " 思考 思考过程 推理 推理过程"
)
_NAME = rf"(?:(?:ant|[a-z0-9]{{1,12}}[:_-]){{0,2}}?(?:{'|'.join(_NAMES.replace('_', '[_-]?').split())}))"
# A mark closes by a slash, or by a word: <think_end>, <|end_of_thought|>.
_WORD = r"(?:begin|start|end|stop)"
_MARKED = (
    rf"(?:<[|｜]?|\[|◁|【|&lt;)\s?(?P<slash>/?)\s?(?P<first>{_WORD}[_▁-]?(?:of[_▁-]?)?)?(?P<name>{_NAME})"
    rf"(?P<last>[_-]?(?:{_WORD}|开始|结束))?(?:\s[^<>\[\]]{{0,200}})?\s?(?:[|｜]?>|\]|▷|】|&gt;)"
)
# Other marks, opening and closing, as they are written.
_PAIRS = [
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|channel>", "<channel|>"),
    ("<unused94>", "<unused95>"),
    ("<ctrl94>", "<ctrl95>"),
    ("<start_working_out>", "<end_working_out>"),
    ("Here is my thought process:", "Here is my response:"),
    ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
]
# Blocks that other tools write around thinking: what closes them closes others too.
_BLOCKS = [
    (
        r"""<details\b(?:[^<>]{0,200}["'](?:reasoning|thinking)["'][^<>]{0,200}>"""
        r"""|[^<>]{0,200}>\s*<summary>[^<>\w]{0,5}(?:Thinking|Thoughts?|Reasoning)\b[^<>]{0,40}</summary>)""",
        r"</details>",
    )
]
# Names of channels at the beginning of a text whose server stripped the marks, glued to what follows.
_CHANNELS = ("analysis", "commentary")
# Tags in which an answer or a page begins.
_OTHER_TAGS = (
    "answer final final_answer output response result solution conclusion summary html head body div p b i br"
    " ul ol li table svg xml code pre a h1 h2 h3 span em strong tool_call function_call tool_code step steps"
    " sub sup details"
)

_MARK = re.compile(
    _MARKED
    + "".join(
        f"|(?P<o{number}>{re.escape(opening)})|(?P<c{number}>{re.escape(closing)})"
        for number, (opening, closing) in enumerate(_PAIRS)
    )
    + "".join(f"|(?P<bo{n}>{opening})|(?P<bc{n}>{closing})" for n, (opening, closing) in enumerate(_BLOCKS)),
    re.IGNORECASE,
)
# Where a mark may begin; only there the table is tried.
_BEGINS = re.compile(
    r"<(?=[a-zA-Z/|｜思推]| ?/? ?think)|\[(?=/?[A-Z]{3}|/?think)|[◁【]|&lt;|Here (?=(?:is|are) my)"
)
# One of these is in every mark: to look for them takes a tenth of the time.
_SIGNS = ("<", "[", "◁", "【", "&lt;", "Here ")
_OF_HEADINGS = ("[", "【")
# The harmony format of gpt-oss: of its channels only the final one is meant for the reader.
_FINAL = re.compile(r"<\|channel\|>\s*final\b[^<\n]{0,80}<\|message\|>")
_SPECIAL = re.compile(r"<\|[a-z_]{1,20}\|>")
_OPENS = re.compile(
    r"\s*(<\|?(?:[\w-]{1,20}:)?([A-Za-z][\w-]{1,30})\|?>|\[([A-Z][A-Z_]{2,20})\]|[◁【](\w{2,20})[▷】])"
)


@lru_cache(maxsize=2)  # a text is asked for several times in a row
def strip_thinking(text: str) -> str:
    """Return the text without thinking segments."""
    if (final := _final(text)) is not None:
        return final
    if not any(sign in text for sign in _SIGNS):
        return text
    tried = (_MARK.match(text, place.start()) for place in _BEGINS.finditer(text))
    marks = [(mark, *_kind(mark)) for mark in tried if mark]
    closed = {name: mark.start() for mark, name, closes, _ in marks if closes}
    kept: list[str] = []
    start, open_mark = 0, ""
    for mark, name, closes, weak in marks:
        may_head = mark[0][0] in _OF_HEADINGS and not name.startswith("think")
        # In brackets a mark that nothing closes further on is a heading.
        if may_head and not closes and closed.get(name, -1) < mark.end():
            continue
        if not closes and not open_mark:
            kept.append(text[start : mark.start()])
            open_mark = name
        elif closes and (name == open_mark or (not open_mark and not weak)):
            if not open_mark:
                kept.clear()
            start, open_mark = mark.end(), ""
    if not open_mark:
        kept.append(text[start:])
    return text if kept == [text] else _side_by_side(kept)


def _side_by_side(parts: list[str]) -> str:
    """Return the parts of a text, of which no two words or numbers become one."""
    whole = ""
    for part in parts:
        whole += f" {part}" if whole[-1:].isalnum() and part[:1].isalnum() else part
    return whole


def _final(text: str) -> str | None:
    """Return the final channel of a text in channels; None of other texts."""
    if "<|channel|>" in text:
        ends = [match.end() for match in _FINAL.finditer(text)]
        return _SPECIAL.split(text[ends[-1] :], maxsplit=1)[0] if ends else ""
    if text.startswith("Thinking...\n"):  # as ollama prints it
        return text.partition("...done thinking.")[2]
    if text.startswith(_CHANNELS) and _is_channel(text):
        return text.partition("assistantfinal")[2]
    return None


def unknown_mark(text: str) -> str | None:
    """Return the mark with which a text begins, where it may open thinking and is not in the table."""
    match = _OPENS.match(text)
    if match is None or _MARK.match(match[1]):
        return None
    name = next(each for each in match.groups()[1:] if each).lower()
    return None if name in _OTHER_TAGS.split() else match[1]


def _is_channel(text: str) -> bool:
    name = next(each for each in _CHANNELS if text.startswith(each))
    rest = text[len(name) :]
    return rest[:1].isupper() or rest.startswith((" to=", "assistant")) or "assistantfinal" in text


def _kind(mark: re.Match[str]) -> tuple[str, bool, bool]:
    """Return a mark's name, whether it closes, and whether alone it means nothing."""
    if mark["name"]:
        words = f"{mark['first'] or ''}{mark['last'] or ''}".lower()
        closes = bool(mark["slash"]) or any(word in words for word in ("end", "stop", "结束"))
        return mark["name"].lower(), closes, False
    group = mark.lastgroup or ""
    return re.sub("[oc]", "", group), "c" in group, group.startswith("b")
