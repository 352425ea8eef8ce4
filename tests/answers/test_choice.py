"""Option labels read from completions such as models write."""

from __future__ import annotations

import pytest

from keff.answers import space
from keff.errors import TaskError

ABCD = space("choice", labels=("A", "B", "C", "D"))
DIGITS = space("choice", labels=("1", "2", "3", "4"))
CITIES = space("choice", labels=("A", "B", "C", "D"), options=("Paris", "New York", "York", "Rome."))

CORPUS = [
    ("The answer is clearly D", "D"),
    ("A plant needs light, so B)", "B"),
    ("Answer: (B)", "B"),
    ("**Answer:** C", "C"),
    ("**Answer: C) The mitochondria**", "C"),
    ("Final answer: D.", "D"),
    ("Final Answer\n\n**B**", "B"),
    ("The correct answer is **(A)** because a plant needs light.", "A"),
    ("The correct answer is A because all others fail.", "A"),
    ("The answer is A plant cell, which is option (C).", "C"),
    ("\\boxed{B}", "B"),
    ("\\boxed{\\text{(C)}}", "C"),
    ("$\\boxed{\\textbf{D}}$", "D"),
    ("The answer is (C). It cannot be (D), as D is too small.", "C"),
    ("I think the answer is B. Actually, the answer is C.", "C"),
    ("The answer is not A but B.", "B"),
    ("The answer is B, not A.", "B"),
    ("answer: b", "B"),
    ("answer is c.", "C"),
    ("Answer: option C", "C"),
    ("The best answer choice is C, since D contradicts the text.", "C"),
    ("The answer to this question is\n\nB", "B"),
    ("<answer>B</answer>", "B"),
    ("#### A", "A"),
    ("Answer: A. Light", "A"),
    ("Answer: vitamin C deficiency, so (B)", "B"),
    ("The correct option is B", "B"),
    ("The correct option is **D**, as I said.", "D"),
    ("After weighing everything I would choose B.", "B"),
    ("I'll go with (C) here, although (A) is tempting.", "C"),
    ("Looking at A, B, C and D in turn, option B is the correct one.", "B"),
    ("(A) is wrong. (B) is too hot. (C) is the best answer. (D) is wrong.", "C"),
    ("A) is incorrect because it is cold.\nD) is not possible.\nHence C)", "C"),
    ("So it must be C.", "C"),
    ("B", "B"),
    ("(d)", "D"),
    ("B) Photosynthesis makes sugar", "B"),
    ("The heat flows.\n\n**C**", "C"),
    ("Ⅰ think: Answer\uff1a\uff22", "B"),
    ("<think>Answer: A</think>\nAnswer: B", "B"),
    ("Let me think. I am sure that A plant is green. Vitamin D helps. Therefore: C", "C"),
    ("The answer is \u200f(B)\u200f", "B"),
    ("Answer: I am sure it is D", "D"),
    ("The final answer is **B: 12 m/s**.", "B"),
    ("So the answer must be C", "C"),
    ("I choose option D because people need vitamin C", "D"),
    ("I would pick **B**.", "B"),
    ("Vitamin C is the most likely cause, hence (B)", "B"),
    # abstentions
    ("A plant is a living thing.", None),
    ("I do not know.", None),
    ("Final answer: <letter>", None),
    ("It could be (A) or (B).", None),
    ("A) Paris\nB) London\nC) Rome\nD) Bern", None),
    ("Answer: C/D", None),
    ("Answer: E", None),
    ("People need vitamin C", None),
    ("<think>Answer: A", None),
    ("", None),
]

TRUNCATED = [
    ("The answer is B because light", "B"),
    ("So the correct option is (C) and", "C"),
    ("(A) is too small, and (B)", None),
    ("Let us look at option B", None),
]

WITH_TEXTS = [
    ("The answer is Paris.", "A"),
    ("Answer: New York", "B"),
    ("Answer: York", "C"),
    ("Final answer: Rome", "D"),
    ("I believe that it must be New York", "B"),
    ("The capital is of course **Paris**", "A"),
    ("Answer: (C) Paris", "C"),
    ("The answer is the city of Rome, in Italy.", "D"),
    ("Either Paris or Rome", None),
]


@pytest.mark.parametrize(("text", "key"), CORPUS)
def test_reads_completions(text: str, key: str | None) -> None:
    found = ABCD.extract(text)
    assert (found and found.answer) == key


@pytest.mark.parametrize(("text", "key"), TRUNCATED)
def test_truncated_text_gives_only_explicit_answers(text: str, key: str | None) -> None:
    found = ABCD.extract(text, truncated=True)
    assert (found and found.answer) == key


@pytest.mark.parametrize(("text", "key"), WITH_TEXTS)
def test_an_option_text_is_its_label(text: str, key: str | None) -> None:
    found = CITIES.extract(text)
    assert (found and found.answer) == key


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("The answer is 3.", "3"),
        ("Answer: (2)", "2"),
        ("The correct option is 4", "4"),
        ("2) because 3 of the 4 planets", "2"),
        ("There are 3 planets and 2 moons", None),
        ("The answer is 300 km", None),
        ("Answer: 2.5", None),
    ],
)
def test_digit_labels_are_not_numbers_in_prose(text: str, key: str | None) -> None:
    found = DIGITS.extract(text)
    assert (found and found.answer) == key


@pytest.mark.parametrize("answer", ["B", "b", "(B)", " B. ", "**B**", "B) New York", "New York", "new york."])
def test_one_option_has_one_key(answer: str) -> None:
    assert CITIES.key(answer) == "B"
    assert CITIES.correct(answer, "B")
    assert not CITIES.correct(answer, "C")


@pytest.mark.parametrize("answer", ["", "E", "AB", "Boston", "A, B"])
def test_what_is_no_option_abstains(answer: str) -> None:
    assert CITIES.key(answer) is None


def test_an_option_text_that_occurs_twice_is_no_label() -> None:
    assert space("choice", labels=("A", "B"), options=("same", "same")).key("same") is None


def test_options_must_fit_labels() -> None:
    with pytest.raises(TaskError, match="3 options do not fit the 4 labels"):
        space("choice", options=("x", "y", "z"))


@pytest.mark.parametrize("label", "ABCD")
@pytest.mark.parametrize(
    "said",
    [
        "Not {}",
        "NOT {}.",
        "Neither {} nor E",
        "Anything but {}",
        "All except {}",
        "Nicht {}",
        "Ni {} ni E",
        "Ni E, ni {}",
        "Weder {} noch E",
        "не {}",
    ],
)
def test_a_label_that_a_text_excludes_is_no_answer(said: str, label: str) -> None:
    choice = space("choice", labels="A,B,C,D,E")
    assert choice.extract(said.format(label)) is None
    other = "B" if label == "A" else "A"
    found = choice.extract(f"{said.format(label)}. So it is {other}")
    assert found is not None and found.answer == other


@pytest.mark.parametrize("said", ["Jibu ni {}.", "Jibu sahihi: ni {}", "Es bleibt nur noch {} übrig."])
@pytest.mark.parametrize("label", ["A", "C"])
def test_a_word_that_excludes_in_pairs_alone_excludes_nothing(said: str, label: str) -> None:
    """In Swahili "ni" is "is"; "nur noch" is what is left."""
    found = space("choice", labels="A,B,C,D").extract(said.format(label))
    assert found is not None and found.answer == label


@pytest.mark.parametrize(
    "said", ["not {}", "Nicht {}", "anything but {}", "All except {}", "neither {} nor that"]
)
@pytest.mark.parametrize("word", ["billing", "refund"])
def test_a_named_label_that_a_text_excludes_is_no_answer(said: str, word: str) -> None:
    label = space("label", labels=["billing", "refund"])
    assert label.extract(said.format(word)) is None and label.key(said.format(word)) is None


@pytest.mark.parametrize("words", [("yes", "no"), ("true", "false"), ("No", "Yes")])
def test_neither_is_neither_yes_nor_no(words: tuple[str, str]) -> None:
    assert space("binary").extract("Neither {} nor {}".format(*words)) is None


@pytest.mark.parametrize("frame", ["**{}**", "*{}*", "__{}__", "**${}$**", "**{}**.", " ***{}*** "])
@pytest.mark.parametrize("expression", ["7", "x+1", r"\frac{1}{2}"])
def test_emphasis_around_an_expression_is_no_part_of_it(frame: str, expression: str) -> None:
    math = space("math")
    found = math.extract(frame.format(expression))
    assert found is not None
    assert math.key(found.answer) == math.key(frame.format(expression)) == math.key(expression)


@pytest.mark.parametrize(("one", "other"), [("A", "C"), ("B", "D"), ("N", "S")])
def test_labels_in_lines_below_a_heading_are_several(one: str, other: str) -> None:
    """Also where the heading itself has the letter."""
    assert space("choice", labels="A,B,C,D,N,S").extract(f"ANSWER:\n{one}\n{other}") is None
    assert space("choice", labels="A,B,C,D,N,S").extract(f"Answer:\n{one}\n{other}") is None


@pytest.mark.parametrize("text", ["Answer: 3 < x < 5", "Answer: 3<x≤5", "Answer: 3 ≤ n < 5"])
def test_a_part_of_a_range_is_no_number(text: str) -> None:
    assert space("numeric").extract(text) is None


def test_what_stands_on_both_sides_of_thinking_is_not_one_number() -> None:
    assert space("numeric").extract("<think>a</think>5<think>b</think>7") is None
    found = space("text").extract("Answer: <think>a</think>Paris<think>b</think>Texas")
    assert found is not None and found.answer == "Paris Texas"
