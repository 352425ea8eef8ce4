"""A statement of several labels abstains, in texts and in ready answers; one of them is never read."""

from __future__ import annotations

import itertools

import pytest

import keff
from keff import answers

CHOICE = answers.space("choice")
WORDS = """
and, or, and/or, as well as, along with, followed by, versus, to, through, xor, und, oder, sowie, et, ou
y, o, e, ed
или, и, та, або, lub, i, albo, nebo, és, vagy, ja, tai, ve, veya, ile, dan, atau, và, hoặc, και, ή, או
یا, و, أو, और
या, এবং, আর, அல்லது, และ, หรือ, na, 하고, 또는, &, -, =
"""
JOINTS = [f" {word.strip()} " for word in WORDS.replace("\n", ",").split(",") if word.strip()]
JOINTS += [
    ", ",
    "; ",
    "/",
    ", and ",
    ", but also ",
    "–",
    "→",
    "->",
    "、",
    "和",
    "与",
    "跟",
    "以及",
    "或者",
    "と",
    "か",
    "または",
]
LABELS = ["{}", "({})", "**{}**", "{})"]
FRAMES = [
    "The answer is {}.",
    "Answer: {}",
    "Final answer: either {}",
    r"So \boxed{{{}}}",
    "**Answer:** {}",
    "I choose {}.",
    "答案是{}。",
    "<answer>{}</answer>",
]


@pytest.mark.parametrize("joint", JOINTS)
def test_several_labels_abstain(joint: str) -> None:
    for (one, two), label in itertools.product(itertools.combinations("ABCD", 2), LABELS):
        said = f"{label.format(one)}{joint}{label.format(two)}"
        assert CHOICE.key(said) is None, said
        for frame in FRAMES:
            assert answers.read(CHOICE, frame.format(said)).key is None, (frame, said)


@pytest.mark.parametrize("between", ["", " ", "\n", ", ", " and ", " or ", " oder ", "$ and $", " 和 "])
def test_several_boxes_and_tags_are_one_statement(between: str) -> None:
    for frame, (one, two) in itertools.product(
        (r"\boxed{%s}", "<answer>%s</answer>"), itertools.permutations("ABCD", 2)
    ):
        said = (frame % one) + between + (frame % two)
        assert answers.read(CHOICE, f"So ${said}$.").key is None, said
        assert answers.read(CHOICE, f"So ${frame % one}. Wait: {frame % two}$.").key == two
        number = said.replace(one, "3").replace(two, "5")
        assert answers.read(answers.space("numeric"), number).key is None, number
    for said in ("(A)(C)", "(A) (C)", "[A] [C]", "A. C."):
        assert CHOICE.key(said) is answers.read(CHOICE, f"Final answer: {said}").key is None
    same = (r"\boxed{A}", "<answer>A</answer>")
    assert all(answers.read(CHOICE, each + between + each).key == "A" for each in same)


@pytest.mark.parametrize("bullet", ["- ", "* ", "1. ", "2) ", ""])
def test_a_list_of_several_answers_abstains(bullet: str) -> None:
    for space, one, two in (("choice", "A", "C"), ("numeric", "3", "5")):
        read = answers.space(space)
        assert answers.read(read, f"**Final answer:**\n{bullet}{one}\n{bullet}{two}").key is None
        assert answers.read(read, f"**Final answer:**\n{bullet}{one}\n{bullet}Reason: it is known").key == one


@pytest.mark.parametrize(
    "frame",
    [
        "答案是{}。", "正确答案：{}", "故选{}", "选项{}正确", "答えは{}です", "정답은 {}입니다.",
        "คำตอบคือข้อ{}",
        "【答案】{}", "选项A错误，选项D不对，所以答案是{}。", "A选项错误；{}选项正确；D选项错误。",
        "Die richtige Antwort ist {}.", "الجواب: {}",
    ],
)  # fmt: skip
def test_a_label_is_read_beside_letters_of_scripts_without_spaces(frame: str) -> None:
    for label in "BC":
        assert answers.read(CHOICE, frame.format(label)).key == label


@pytest.mark.parametrize("joint", [" and ", "; ", ", or "])
def test_options_with_their_texts_abstain(joint: str) -> None:
    for one, two in itertools.combinations("ABCD", 2):
        said = f"({one}) red{joint}({two}) blue"
        assert CHOICE.key(said) is None
        assert answers.read(CHOICE, f"The answer is {said}.").key is None


@pytest.mark.parametrize(
    "rest",
    [
        ", not {}",
        ". {} and D are too small",
        ", {} is incorrect",
        " because A or {} would need more",
        " ({} would need more)",
        ", as both A and {} are false",
        ") salt and pepper",
    ],
)
def test_a_label_with_its_reason_is_read(rest: str) -> None:
    for other in "CD":
        assert answers.read(CHOICE, f"The answer is B{rest.format(other)}").key == "B"


def test_a_vote_of_undecided_answers_does_not_decide() -> None:
    assert keff.vote(["B", "A and C", "A and C", "A or D"], space="choice").answer == "B"
