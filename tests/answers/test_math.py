"""Mathematical answers read from completions such as models write, and their canonical forms."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from keff.answers import math, space
from keff.answers.parts import workers

MATH = space("math")

CORPUS = [
    (r"Thus $x = \boxed{5}$.", "5"),
    (r"The final answer is $\boxed{\frac{1}{2}}$.", "1/2"),
    (r"so \boxed{\frac12}", "0.5"),
    (r"\boxed{\dfrac{14}{3}}", r"\frac{14}{3}"),
    (r"\[\boxed{\left( 3, \frac{\pi}{2} \right)}\]", r"(3,\frac{\pi}{2})"),
    (r"\boxed{\text{Evelyn}}", "evelyn"),
    (r"\boxed{90^\circ}", "90"),
    (r"First \boxed{12}; correcting the sign, \boxed{-12}", "-12"),
    (r"\boxed{\{1,-2\}}", "1,-2"),
    (r"\boxed{x=5}", "5"),
    (r"\boxed{\textbf{(C)}}", "C"),
    (r"\boxed{10{,}080}", "10080"),
    (r"\boxed{18\text{ cm}^2}", "18"),
    (r"\boxed 7", "7"),
    (r"\boxed{[0,1)\cup(2,3]}", r"(2,3]\cup[0,1)"),
    (r"\boxed{2516_8}", "2516_{8}"),
    (r"\boxed{50\%}", "50"),
    (r"\fbox{42}", "42"),
    (r"The answer is $\frac{3}{56}$.", r"\frac{3}{56}"),
    (r"The answer is \(\frac{3}{56}\), as shown.", r"\frac{3}{56}"),
    (r"The answer is \[ \frac{243}{625} \]", r"\frac{243}{625}"),
    (r"Final answer: $\frac{9}{4}$", "2.25"),
    (r"Final answer: 3/4", "0.75"),
    (r"**Answer:** $-\frac{\pi}{6}$", r"-\frac{\pi}{6}"),
    (r"**Answer:** 3.21", "3.21"),
    (r"Answer: $1,234", "1234"),
    (r"Answer: even", "even"),
    (r"The answer is (1, 2).", "(1,2)"),
    (r"The answer is x^2.", "x^2"),
    (r"#### \frac{1}{3}", r"\frac{1}{3}"),
    (r"<answer>$\frac{2}{21}$</answer>", r"\frac{2}{21}"),
    ("### Final Answer\n\\[\n\\boxed{\\frac{3}{4}}\n\\]", "0.75"),
    ("### Final Answer\n$\\frac{3}{4}$", "0.75"),
    (r"We get $a = 1$. The final answer is the set of all $t$, namely $(2,\infty)$.", r"(2,\infty)"),
    (r"<think>\boxed{3}</think>\boxed{4}", "4"),
    ("Final answer: \u22125", "-5"),
    ("Final answer: ½", "0.5"),
    ("Final answer: \uff13", "3"),
    (r"\boxed{\begin{pmatrix} 1 \\ 2 \end{pmatrix}}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
    # heuristics
    (r"Therefore $x = \frac{1}{3}$", r"\frac{1}{3}"),
    (r"so we have \[ y = \frac{8}{7}. \]", r"\frac{8}{7}"),
    (r"With $a=1$ this makes 12.", "12"),
    ("It is 7", "7"),
    (r"The answer is $x=2$ or $x=3$.", "2, 3"),
    (r"Thus $\boxed{3+4=7}$", "7"),
    ("Final answer: The number of ways is 12.", "12"),
    # abstentions
    (r"\boxed{}", None),
    (r"Final answer: \boxed{<expression>}", None),
    ("Nothing can be said.", None),
    (r"<think>\boxed{3}", None),
    ("", None),
]


@pytest.fixture
def no_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The space as it is without the extra."""
    monkeypatch.setattr(workers, "available", lambda: False)
    workers.sought.cache_clear()
    math.canonical_form.cache_clear()
    yield
    workers.sought.cache_clear()
    math.canonical_form.cache_clear()


@pytest.mark.parametrize(("text", "answer"), CORPUS)
@pytest.mark.usefixtures("no_worker")
def test_reads_completions(text: str, answer: str | None) -> None:
    found = MATH.extract(text)
    assert (found and MATH.key(found.answer)) == (answer and MATH.key(answer))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{5} and so", "5"),
        (r"\boxed{\frac{1}{2", None),
        (r"Answer: $\frac{1}", None),
        ("Then $x = 5$ and", None),
    ],
)
@pytest.mark.usefixtures("no_worker")
def test_truncated_text_gives_only_whole_explicit_answers(text: str, answer: str | None) -> None:
    found = MATH.extract(text, truncated=True)
    assert (found and found.answer) == answer


BY_STRING = [
    [
        "0.5",
        ".50",
        "1/2",
        r"\frac12",
        r"\frac{1}{2}",
        r"$\dfrac{1}{2}$",
        r"\tfrac 1 2",
        "2/4",
        r"\left(\frac12\right)",
    ],
    ["-0.5", r"-\frac{1}{2}", r"\frac{-1}{2}", "-1/2"],
    ["3.5", r"3\frac{1}{2}", r"\frac72", "7/2"],
    ["5", "x=5", "x = 5", r"5\text{ cm}", r"5^\circ", "5.", "5 degrees", "$5$", r"\$5", r"5\%", "5.0", "005"],
    ["10080", "10,080", r"10,\!080", "10{,}080", r"10\,080"],
    ["(3, 4)", "(3,4)", r"\left(3,4\right)", "(3.0, 4)"],
    ["1,-2", "-2, 1", r"\{1,-2\}", r"x=1\text{ or }x=-2", "1 and -2"],
    [r"1\pm\sqrt{19}", r"1+\sqrt{19},1-\sqrt{19}"],
    [r"(-\infty,2)\cup(3,\infty)", r"(3,\infty) \cup (-\infty, 2)"],
    ["C", "(C)", r"\text{(C)}", r"\textbf{(C)}"],
    ["east", r"\text{East}", "East"],
    ["52_8", "52_{8}", "052_8"],
    [r"\begin{pmatrix} -1/3 \\ 2/3 \end{pmatrix}", r"\begin{pmatrix}-\frac13\\\frac{2}{3}\end{pmatrix}"],
    ["0.0000672", ".0000672", r"6.72\times10^{-5}"],
    [r"\sqrt{5}", r"\sqrt5", "sqrt(5)".replace("sqrt(5)", r"\sqrt {5}")],
]

BY_WORKER = [
    [r"11(1+\sqrt5)", r"11+11\sqrt{5}", r"11\sqrt{5}+11"],
    [r"\frac{1}{\sqrt{2}}", r"\frac{\sqrt2}{2}"],
    [r"\sqrt{5+2\sqrt6}", r"\sqrt2+\sqrt3"],
    ["(a+5)(b+2)", "ab+2a+5b+10"],
    ["p - q", "-q+p"],
    [r"\frac{9a+11}{20}", r"\frac{11+9a}{20}"],
    ["5x - 7y + 11z + 4 = 0", "-5x+7y-11z=4", "10x-14y+22z=-8"],
    [r"y=-\frac{2}{5}x+1", r"1-\frac{2x}{5}"],
    ["6 - 5i", "-5i+6"],
    ["(2+1)^2", "9"],
    [r"\left(3,\frac{2\pi}{4}\right)", r"(3,\frac{\pi}{2})"],
    [r"\ln(x+1)", r"\ln(1+x)"],
]


@pytest.mark.parametrize("forms", BY_STRING)
@pytest.mark.usefixtures("no_worker")
def test_one_value_has_one_key_without_the_extra(forms: list[str]) -> None:
    keys = [MATH.key(form) for form in forms]
    assert len(set(keys)) == 1
    assert MATH.key(str(keys[0])) == keys[0]


@pytest.mark.usefixtures("no_worker")
def test_without_the_extra_other_expressions_keep_their_string() -> None:
    assert MATH.key(r"11 (1+\sqrt5)") == r"11(1+\sqrt{5})"


@pytest.mark.slow
def test_one_value_has_one_key_with_the_extra() -> None:
    pytest.importorskip("math_verify")
    for forms in BY_WORKER:
        keys = {MATH.key(form) for form in forms}
        assert len(keys) == 1, forms
        key = keys.pop()
        assert key is not None
        assert MATH.key(key) == key


def test_different_values_have_different_keys() -> None:
    answers = ["1", "-1", "1/3", "0.33", "(1,2)", "[1,2]", "(2,1)", "1,2", r"\pi", r"\sqrt{2}", "x+1", "x-1"]
    assert len({MATH.key(answer) for answer in answers}) == len(answers)


@pytest.mark.slow
def test_a_string_that_overruns_is_given_up_and_a_killed_worker_is_replaced() -> None:
    pytest.importorskip("math_verify")
    pool = workers.POOL
    pool.close()  # another test may have killed idle ones
    assert pool.ask(["2+1", 9.0], seconds=60)[0] == "3"
    assert pool.ask([r"\int \frac{1}{x^{7}+x+1} dx", 0.1], seconds=60) == [None, None]
    assert pool.ask(["2+2", 9.0], seconds=60)[0] == "4"
    assert pool.ask([r"\int \frac{1}{x^{7}+x+1} dx", 60.0], seconds=0.1) is None
    assert pool.ask(["2+3", 9.0], seconds=60)[0] == "5"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits on memory are those of Linux")
def test_without_memory_for_a_worker_nothing_is_read_otherwise(tmp_path: Path) -> None:
    pytest.importorskip("math_verify")
    spellings = ["(x+7)^2", "x^2+14x+49", "49+14x+x^2", "1", "1"]
    row = {"id": "q", "gold_answer": "(x+7)^2", "all_answers": spellings}
    (tmp_path / "log.jsonl").write_text(json.dumps(row) + "\n")
    words = f"{sys.executable} -m keff read {tmp_path}/log.jsonl --answer-space math"
    short = ["sh", "-c", f"ulimit -v 700000; exec {words}"]
    done = subprocess.run(short, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "give it 1 GiB of memory" in done.stderr


@pytest.mark.slow
def test_what_cannot_be_worked_out_votes_as_it_is_written() -> None:
    pytest.importorskip("math_verify")
    assert MATH.key("9^{9^{9^9}}") == "9^{9^{9^9}}"
    assert MATH.key("x+x") == "2x"


def test_correct_is_a_function_of_the_key() -> None:
    assert MATH.correct(r"\frac12", "0.5")
    assert MATH.correct("2", ["1", "2"])
    assert not MATH.correct("3", ["1", "2"])
    assert not MATH.correct("", "1")
    assert MATH.key("x" * 2000) is None


FRAMES = (
    "答案为 {}",
    "答案：{}。",
    "所以答案是 {}。",
    "答えは {} です。",
    "따라서 답은 {}입니다.",
    "Ответ {}",
    "คำตอบคือ {}",
    "الجواب هو {}",
    "So we get {}.",
)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("formula", [r"\frac{1}{2}", "x+1", r"2\sqrt{3}", "x=7", r"\pi/4"])
@pytest.mark.parametrize("marks", ["${}$", r"\({}\)"])
def test_a_formula_is_read_out_of_a_sentence_in_any_script(frame: str, formula: str, marks: str) -> None:
    found = MATH.extract(frame.format(marks.format(formula)))
    assert found is not None and MATH.key(found.answer) == MATH.key(formula)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("either", [" or ", "或", " 或者 ", "または", " 또는 ", " или ", " oder ", ", "])
def test_roots_that_are_joined_are_one_answer(frame: str, either: str) -> None:
    found = MATH.extract(frame.format(f"$x=3${either}$x=5$"))
    assert found is not None and MATH.key(found.answer) == MATH.key("3, 5")
