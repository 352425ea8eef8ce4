"""MBPP: asserts taken apart, outputs as votes, and programs scored by running them."""

from __future__ import annotations

import ast
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from keff import task as interface
from keff.errors import TaskError
from keff.plugins import load
from keff.records import Completion, Item
from keff.tasks._code_driver import decode, encode
from keff.tasks.mbpp import Mbpp, canonical, parse


@pytest.fixture(scope="module")
def mbpp() -> Mbpp:
    if shutil.which("bwrap") is None:
        reason = "bubblewrap is not installed: apt-get install bubblewrap"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    return load("task", "mbpp")


def gold(*tests: str, imports: tuple[str, ...] = ()) -> dict[str, list[str]]:
    return {"imports": list(imports), "tests": list(tests)}


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec=None))
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.integers() | st.text() | st.floats(allow_nan=False), inner, max_size=3)
        | st.sets(st.integers() | st.text() | st.floats(allow_nan=False), max_size=3)
    ),
    max_leaves=8,
)


@given(plain)
def test_values_survive_the_report(value: Any) -> None:
    text = repr(encode(value)).replace("'", '"')
    assert decode(json.loads(text)) == value


@pytest.mark.slow
@given(plain, plain)
@settings(max_examples=examples(300))
def test_canonical_texts_agree_with_python_equality(first: Any, second: Any) -> None:
    assert (canonical(encode(first)) == canonical(encode(second))) == (first == second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (1, 1.0),
        (True, 1),
        (0.0, -0.0),
        ({1, 2}, {2.0, 1}),
        (frozenset((1,)), {1}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ],
)
def test_what_python_calls_equal_is_one_vote(first: Any, second: Any) -> None:
    assert canonical(encode(first)) == canonical(encode(second))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([1], (1,)),
        ("1", 1),
        (b"1", "1"),
        (set(), {}),
        ([], ()),
        (None, "None"),
        ("b 61", b"a"),
        (["a, b"], ["a", "b"]),
    ],
)
def test_what_python_calls_unequal_is_two_votes(first: Any, second: Any) -> None:
    assert canonical(encode(first)) != canonical(encode(second))


def test_expected_values_never_reach_the_candidate() -> None:
    secret = "31337"
    tests = (
        f"assert f(1, [2]) == {secret}",
        f"assert {secret} == f(2)",
        f"assert set(f(3)) == set([{secret}])",
        f"assert math.isclose(f(4), {secret}, rel_tol=0.1)",
        f"assert abs(f(5) - {secret}) < 1e-6",
        f"assert round(f(6), 2) == {secret}, 'off by {secret}'",
        f"assert f(7)[0] == {secret} and not f(8)",
        f"assert f(9) in ({secret}, {secret})",
        f"assert sorted(set(f(10))) == sorted([{secret}])",
    )
    parsed = parse(tests)
    assert all(secret not in call for test in parsed for call in test.calls)
    assert all("f(" in call for test in parsed for call in test.calls)
    assert [test.calls for test in parsed][2:5] == [("set(f(3))",), ("f(4)",), ("f(5)",)]
    assert parsed[6].calls == ("f(7)", "f(8)")
    assert parsed[8].calls == ("sorted(set(f(10)))",)
    (shadowing,) = parse([f"assert set([1, 2]) == set([{secret}])"])
    assert shadowing.calls == ("set([1, 2])",)


def test_expected_values_of_the_data_never_reach_the_candidate(data: Path) -> None:
    for line in (data / "benchmarks" / "mbpp.jsonl").read_text("utf-8").splitlines():
        for source, test in zip(
            json.loads(line)["test_list"], parse(json.loads(line)["test_list"]), strict=True
        ):
            tree = ast.parse(source).body[0]
            assert isinstance(tree, ast.Assert)
            if isinstance(tree.test, ast.Compare):
                assert test.calls == (ast.unparse(tree.test.left),)
            else:
                assert isinstance(tree.test, ast.Call)
                assert test.calls == (ast.unparse(tree.test.args[0]),)


@pytest.mark.parametrize(
    "source",
    ["x = 1", "assert f(1) == 1; assert f(2) == 2", "assert (", "assert x == 1", "assert f(\0)"],
)
def test_a_test_that_is_not_one_assert_of_a_call_is_refused(source: str) -> None:
    with pytest.raises(TaskError):
        parse([source])


def test_rows_that_do_not_fit_are_named() -> None:
    task = load("task", "mbpp")
    row = {"task_id": 1, "prompt": "p", "code": "c", "test_imports": [], "test_list": ["assert f(1) == 2"]}
    assert task.to_item(row).gold == gold("assert f(1) == 2")
    for broken, match in (
        ({"test_list": []}, "no tests"),
        ({"test_list": "assert f(1) == 2"}, "test_list"),
        ({"prompt": None}, "prompt"),
    ):
        with pytest.raises(TaskError, match=match):
            task.to_item({**row, **broken})
    del row["test_imports"]
    with pytest.raises(TaskError, match=r"test_imports.*found: task_id"):
        task.to_item(row)


def test_the_prompt_shows_one_test_only(data: Path) -> None:
    task = load("task", "mbpp", data=str(data / "benchmarks" / "mbpp.jsonl"))
    item = next(interface.items(task))
    content = task.messages(item, 0)[0]["content"]
    assert content.count("assert ") == 1
    assert item.gold["tests"][0] in content
    assert item.meta["solution"] not in content


@pytest.mark.slow
@pytest.mark.usefixtures("mbpp")
def test_gold_programs_pass_their_own_tests(data: Path) -> None:
    """A spread of the data; all of it in the benchmark."""
    task = load("task", "mbpp", data=str(data / "benchmarks" / "mbpp.jsonl"))
    chosen = [item for item in interface.items(task) if int(item.id.split("-")[1]) != 123][::5]
    assert len(chosen) >= 25
    assert [item.id for item in chosen if not task.accepts_gold(item)] == []


@pytest.mark.usefixtures("mbpp")
def test_a_gold_that_fails_its_own_scorer_is_found(tmp_path: Path) -> None:
    row = {
        "task_id": 1,
        "prompt": "p",
        "code": "def f(x): return x",
        "test_imports": [],
        "test_list": ["assert f(1) == 2"],
    }
    data = tmp_path / "mbpp.jsonl"
    data.write_text(json.dumps(row) + "\n")
    with pytest.raises(TaskError, match="fails its own scorer"):
        interface.select(load("task", "mbpp", data=str(data)))


@pytest.mark.parametrize(
    ("code", "tests", "correct"),
    [
        ("def f(x): return x == 2", ["assert not f(1)", "assert f(2)"], True),
        ("def f(x): return x == 1", ["assert not f(1)", "assert f(2)"], False),
        ("def f(x): return 0.1 + 0.2", ["assert math.isclose(f(1), 0.3)"], True),
        ("def f(x): return 0.1 + 0.2", ["assert f(1) == 0.3"], False),
        ("def f(x): return [1, 2, 2]", ["assert set(f(1)) == set([2, 1])"], True),
        ("def f(x): yield from (1, 2)", ["assert set(f(1)) == {1, 2}"], True),
        ("def f(x): yield from (1, 2)", ["assert f(1) == [1, 2]"], False),
        ("def sum(a, b): return a + b", ["assert sum(10, 15) == 25"], True),
        ("def f(x): return None", ["assert f(1) is None"], True),
        (
            "import collections\ndef f(x): return collections.Counter(x)",
            ["assert f('aab') == {'a': 2, 'b': 1}"],
            True,
        ),
        ("import fractions\ndef f(x): return fractions.Fraction(1, 2)", ["assert f(1) == 0.5"], True),
        (
            "class P:\n  def __init__(self, a): self.a = a\ndef f(p): return p.a",
            ["assert f(P(3)) == 3"],
            True,
        ),
        ("def f(x): return float('inf') if x else float('nan')", ["assert f(1) == float('inf')"], True),
        ("def f(x): return float('nan')", ["assert f(1) == f(1)"], False),
        ("def f(x): return object()", ["assert f(1)"], False),
        (
            "from dataclasses import dataclass\n@dataclass\nclass A:\n  x: 'int'\ndef f(x): return A(x).x",
            ["assert f(2) == 2"],
            True,
        ),
        ("if __name__ == '__main__': raise ValueError\ndef f(x): return x", ["assert f(2) == 2"], True),
        ("def f(x): return math.floor(x)", ["assert f(2.5) == 2"], True),
        # What the program calls like a builtin or an import is its own, and no part of the tests.
        ("def tuple(x): return [9]\ndef f(x): return [1, 2]", ["assert tuple(f(1)) == (1, 2)"], True),
        ("def max(x): return 3\ndef f(x): return [1, 2]", ["assert max(f(1)) == 3"], False),
        ("def max(*x): return 3\ndef f(x): return max(x, 1)", ["assert f(2) == 3", "assert f(1) == 3"], True),
        (
            "import builtins\nbuiltins.round = lambda x: 3\ndef f(x): return 5",
            ["assert round(f(1)) == 3"],
            False,
        ),
        ("class math:\n  sqrt = str\ndef f(x): return math.sqrt(x)", ["assert f(4) == '4'"], True),
        ("class math:\n  sqrt = str\ndef f(x): return x", ["assert f(math.sqrt(4)) == 2.0"], True),
        ("def list(x): return 7\ndef abs(x): return list(x)", ["assert abs(list((1,))) == 7"], True),
    ],
)
def test_shapes_of_asserts(mbpp: Mbpp, code: str, tests: list[str], correct: bool) -> None:
    assert mbpp.correct(code, gold(*tests, imports=("import math",))) is correct


def test_votes_are_outputs_not_programs_and_not_pass_patterns(mbpp: Mbpp) -> None:
    tests = gold("assert f(1) == 1", "assert f(2) == 4")
    square, power = (
        mbpp.ran("def f(x): return x * x", tests),
        mbpp.ran("def f(n):\n    return float(n ** 2)", tests),
    )
    cube, double = (
        mbpp.ran("def f(x): return x ** 3", tests),
        mbpp.ran("def f(x): return 3 * x - 2 + (x > 1)", tests),
    )
    assert square.key == power.key == "1, 4"
    # Both pass the first test and fail the second, with different outputs: two answers, two votes.
    assert (cube.key, double.key) == ("1, 8", "1, 5")
    assert [each.correct for each in (square, power, cube, double)] == [True, True, False, False]


def test_long_outputs_have_short_keys(mbpp: Mbpp) -> None:
    tests = gold("assert f(1) == ''")
    first, again, other = (mbpp.ran(f"def f(x): return '{c}' * 1000", tests).key for c in "aab")
    assert first == again != other
    assert first is not None
    assert len(first) == 64


@pytest.mark.parametrize(
    "code",
    [
        "def f(x): return (",
        "def g(x): return x",
        "raise ValueError\ndef f(x): return x",
        "input()\ndef f(x): return x",
        "1/0",
    ],
)
def test_what_cannot_be_executed_abstains(mbpp: Mbpp, code: str) -> None:
    item = Item("i", ({"role": "user", "content": "q"},), gold("assert f(1) == 1"), "code")
    judged = mbpp.judge(item, Completion(f"```python\n{code}\n```"))
    assert (judged.key, judged.correct, judged.rule) == (None, 0, "not executable")


def test_an_error_in_one_call_is_an_outcome_that_votes(mbpp: Mbpp) -> None:
    ran = mbpp.ran("def f(x): return 1 / x", gold("assert f(1) == 1", "assert f(0) == 0"))
    assert (ran.key, ran.correct) == ("1, raise ZeroDivisionError", False)


def test_judging_reads_keys_and_scores(mbpp: Mbpp) -> None:
    item = Item("i", ({"role": "user", "content": "q"},), gold("assert f(1) == 2"), "code")
    text = "Sure.\n```python\ndef f(x):\n    return x + 1\n```\nIt adds one."
    right = mbpp.judge(item, Completion(text))
    assert (right.key, right.correct, right.rule) == ("2", 1, "fence")
    cut = mbpp.judge(item, Completion("```python\ndef f(x):\n    ret", finish="length"))
    assert (cut.answer, cut.key, cut.correct, cut.rule) == (None, None, 0, "truncated")
    refused = mbpp.judge(item, Completion("", refusal="no"))
    assert (refused.key, refused.correct, refused.rule) == (None, 0, "refusal")
    unlabelled = mbpp.judge(Item("i", item.messages, None, "code"), Completion(text))
    assert (unlabelled.key, unlabelled.correct) == (mbpp.key("def f(x):\n\n    return x + 1  "), None)
