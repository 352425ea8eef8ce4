"""Thinking is cut, and look-alike characters are folded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import command_line
from keff import answers
from keff.answers import strip_thinking
from keff.answers.parts.base import fold


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("plain", "plain"),
        ("<think>a</think>b", "b"),
        ("x<think>a</think>b<think>c</think>d", "x b d"),
        ("a</think>b", "b"),
        ("<think>a<think>b</think>c", "c"),
        ("<think>a</think>b</think>c", "c"),
        ("b<think>a", "b"),
        ("<thinking>a</thinking>b", "b"),
        ("[THINK]a[/THINK]b", "b"),
        ("◁think▷a◁/think▷b", "b"),
        ("<|begin_of_thought|>a<|end_of_thought|>b", "b"),
        ("<reasoning>a</reasoning>b", "b"),
        (
            "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>",
            "b",
        ),
        ("<|channel|>final<|message|>b", "b"),
        ("<|channel|>analysis<|message|>a", ""),
        ("<|channel|>commentary<|message|>a<|end|>", ""),
        ("analysisWe think.assistantfinalb", "b"),
        ("analysisWe think", ""),
        ("analysis of the text shows b", "analysis of the text shows b"),
        ("I think that b", "I think that b"),
    ],
)
def test_thinking_is_never_seen(text: str, visible: str) -> None:
    assert strip_thinking(text) == visible


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("plain", "plain"),
        ("a\0b", "ab"),
        ("\u221212", "-12"),
        ("１２．５", "12.5"),
        ("٤٢", "42"),
        ("1\u202f234\u00a0567", "1234567"),
        ("1\u00a0km", "1 km"),
        ("3½", "3 1/2"),
        ("10²", "10^2"),
        ("\u200fB\u200e\ufeff", "B"),
        ("\ud800", "\ufffd"),
        ("2×3", "2*3"),
        ("“a”", '"a"'),
        ("naïve 東京", "naïve 東京"),
    ],
)
def test_look_alikes_are_folded(text: str, folded: str) -> None:
    assert fold(text) == folded


TAGS = [
    "think",
    "THINK",
    "thinking",
    "Thought",
    "reasoning",
    "mm:think",
    "seed:think",
    "grok:think",
    "scratchpad",
    "scratch_pad",
    "antThinking",
    "inner_thoughts",
    "reasoning_content",
    "o1_thinking",
    "思考过程",
]
WORDED = [
    "<|{}think|>",
    "<|{}_of_thought|>",
    "<{}_thinking>",
    "<｜{}▁of▁thinking｜>",
    "<think_{}>",
]
MARKS = [(f"<{tag}>", f"</{tag}>") for tag in TAGS]
MARKS += [(form.format("begin"), form.format("end")) for form in WORDED]
MARKS += [(form.format("start"), form.format("end")) for form in WORDED]
MARKS += [
    ("[BEGIN_THINKING]", "[END_THINKING]"),
    ("[REASONING]", "[/REASONING]"),
    ("【思考】", "【/思考】"),
    ("< think >", "</ think >"),
    ("&lt;think&gt;", "&lt;/think&gt;"),
    ("<start_working_out>", "<end_working_out>"),
    ("<details><summary>Thinking</summary>", "</details>"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<unused94>thought\n", "<unused95>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|channel>thought\n", "<channel|>"),
    ('<details type="reasoning" done="true">', "</details>"),
    ('<think lang="en">', "</think>"),
]


@pytest.mark.parametrize(("opening", "closing"), MARKS)
def test_every_mark_is_cut_closed_or_not(opening: str, closing: str) -> None:
    for before, after in (
        ("", "Answer: 12"),
        ("Well. ", "\n\nAnswer: 12"),
        ("", "<details>x</details> Answer: 12"),
    ):
        text = f"{before}{opening}First Answer: 7, no.\nAnswer: 8{closing}{after}"
        assert strip_thinking(text) == before + after
        assert answers.read(answers.space("numeric"), text).key == "12"
    headings = opening.startswith(("[R", "【"))
    assert strip_thinking(f"{opening}Answer: 7") == (f"{opening}Answer: 7" if headings else "")
    if closing != "</details>":
        assert strip_thinking(f"Answer: 7{closing}Answer: 12") == "Answer: 12"


@pytest.mark.parametrize("name", ["analysis", "commentary"])
def test_channels_without_marks_are_cut(name: str) -> None:
    assert strip_thinking("Thinking...\nWe try 7.\n...done thinking.\nAnswer: 12") == "\nAnswer: 12"
    assert strip_thinking(f"{name}We try 7.assistantfinalAnswer: 12") == "Answer: 12"
    assert strip_thinking(f"{name}We try 7.") == ""
    assert strip_thinking(f"{name} of the text: 12") == f"{name} of the text: 12"


def test_a_mark_that_is_not_known_is_said(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    texts = [f"<ponder>Is it 7?</ponder>\nThe answer is {n}." for n in range(4)]
    rows = [{"id": n, "all_texts": texts, "gold_answer": "3"} for n in range(5)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    said = command_line.keff("read", file, "--answer-space", "numeric").stdout
    assert "20 texts begin with '<ponder>'" in said
    known = file.read_text("utf-8").replace("ponder", "think")
    file.write_text(known, encoding="utf-8")
    assert "begin with" not in command_line.keff("read", file, "--answer-space", "numeric").stdout
