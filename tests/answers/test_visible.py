"""Thinking is cut, and look-alike characters are folded."""

from __future__ import annotations

import pytest

from keff.answers import strip_thinking
from keff.answers.parts.base import fold


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("plain", "plain"),
        ("<think>a</think>b", "b"),
        ("x<think>a</think>b<think>c</think>d", "xbd"),
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
