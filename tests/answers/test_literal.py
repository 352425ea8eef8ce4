"""Python literals read from completions such as models write, and compared without executing anything."""

from __future__ import annotations

import pytest

from keff.answers import space

LITERAL = space("literal")

CORPUS = [
    ("[ANSWER] 'hello' [/ANSWER]", "'hello'"),
    ("[THOUGHT]\nLet me trace.\n[/THOUGHT]\n[ANSWER]\n[1, 2, 3]\n[/ANSWER]", "[1, 2, 3]"),
    ("[ANSWER]{'a': 1}", "{'a': 1}"),
    ("Final answer: (1, 2)", "(1, 2)"),
    ("Final answer: `[1, 2]`", "[1, 2]"),
    ("**Answer:** `'abc'`", "'abc'"),
    ("The answer is {1: None, 2: None}.", "{1: None, 2: None}"),
    ("The answer is 'It''s'.", "'It'"),
    ('The answer is "it\'s".', '"it\'s"'),
    ("The answer is 42.", "42"),
    ("The answer is -3.5", "-3.5"),
    ("The answer is True.", "True"),
    ("The answer is None", "None"),
    ("The answer is set()", "set()"),
    ("\\boxed{[1, 2]}", "[1, 2]"),
    ("assert f([1, 2]) == [2, 1]", "[2, 1]"),
    ("So:\n```python\nassert f('a') == 'b'\n```", "'b'"),
    ("I thought assert f(1) == 2 but assert f(1) == 3", "3"),
    ("#### [1]", "[1]"),
    ("Answer: ''", "''"),
    ("Answer: b'13:45'", "b'13:45'"),
    ("Answer: r'\\d'", "'\\\\d'"),
    ("Answer: [(4, 1), (2, 3)], since each pair is sorted.", "[(4, 1), (2, 3)]"),
    ("Answer: ['a]', 'b)']", "['a]', 'b)']"),
    ("Answer: {'k': [1, {'n': (2,)}]}", "{'k': [1, {'n': (2,)}]}"),
    ("Answer: 'a\\'b'", "'a\\'b'"),
    ("<answer>['x']</answer>", "['x']"),
    ("Final answer:\n```python\n['x', 'y']\n```", "['x', 'y']"),
    ("First the answer is 'a'. Then again the answer is 'b'.", "'b'"),
    ("Answer: 'ünïcode ٣'", "'ünïcode ٣'"),
    ("<think>Answer: 1</think>Answer: 2", "2"),
    ("Answer: 1e3", "1000"),
    ("Answer: 1_000", "1000"),
    ("Answer: 2+3j", "2+3j"),
    # heuristics
    ("'hbtofdeiequ'", "'hbtofdeiequ'"),
    ("The loop runs twice.\n\n[1, 2]", "[1, 2]"),
    ("It gives this:\n```\n{'a': 1}\n```\nwhich is a dict", "{'a': 1}"),
    ("so that the function gives back `['a', 'b']`", "['a', 'b']"),
    ("The function returns 'xyz' at the end", "'xyz'"),
    ("The output is: [3]", "[3]"),
    ("Therefore the result is (1,)", "(1,)"),
    # abstentions
    ("Final answer: <Python literal>", None),
    ("Answer: [1, 2", None),
    ("I cannot run this code in my head", None),
    ("<think>Answer: 1", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "literal"), CORPUS)
def test_reads_completions(text: str, literal: str | None) -> None:
    found = LITERAL.extract(text)
    assert (found and LITERAL.key(found.answer)) == (literal and LITERAL.key(literal))
    assert literal is None or LITERAL.key(literal) is not None


@pytest.mark.parametrize(
    ("text", "literal"),
    [("Answer: [1, 2]", "[1, 2]"), ("Answer: 12", None), ("Answer: [1, 2", None), ("'abc'", None)],
)
def test_truncated_text_gives_only_whole_explicit_answers(text: str, literal: str | None) -> None:
    found = LITERAL.extract(text, truncated=True)
    assert (found and found.answer) == literal


@pytest.mark.parametrize(
    "forms",
    [
        ["'a'", '"a"', " 'a' ", "'''a'''", "('a')", "u'a'"],
        ["{1, 2}", "{2, 1}", "{2, 1, 1}"],
        ["{'a': 1, 'b': [2]}", "{'b':[2],'a':1}"],
        ["1", "1.0", "True", "+1", "0x1", "1+0j"],
        ["[1, 2]", "[1,2,]", "[ 1 , 2 ]", "[True, 2.0]"],
        ["set()", "set( )"],
        ["1e999", "1e9999"],
    ],
)
def test_equal_values_have_one_key(forms: list[str]) -> None:
    keys = [LITERAL.key(form) for form in forms]
    assert len(set(keys)) == 1
    assert keys[0] is not None
    assert LITERAL.key(keys[0]) == keys[0]


def test_unequal_values_have_different_keys() -> None:
    answers = [
        "(1, 2)",
        "[1, 2]",
        "{1, 2}",
        "'1'",
        "1",
        "b'1'",
        "None",
        "'None'",
        "{}",
        "set()",
        "[]",
        "()",
        "(1,)",
    ]
    assert len({LITERAL.key(answer) for answer in answers}) == len(answers)


@pytest.mark.parametrize(
    "answer",
    [
        "f(1)",
        "__import__('os').system('true')",
        "[x for x in range(3)]",
        "hello",
        "[" * 5000 + "]" * 5000,
        "-" * 9000 + "1",
        "(" * 90 + "1" + ")" * 90,
        "9" * 9999,
        "{[]: 1}",
        "{{}}",
        "'\0'" + "\0",
        "'\ud800",
        "x" * 20_000,
        "",
        "1 +",
        "'a' 'b' +",
    ],
)
def test_what_is_no_literal_abstains_and_nothing_runs(answer: str) -> None:
    assert LITERAL.key(answer) is None
    assert not LITERAL.correct(answer, "1")


def test_correct_compares_values() -> None:
    assert LITERAL.correct("{'b': 1, 'a': 2}", "{'a': 2, 'b': 1}")
    assert not LITERAL.correct("[1, 2]", "(1, 2)")
