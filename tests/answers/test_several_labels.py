"""A statement of several labels abstains, in texts and in ready answers; one of them is never read."""

from __future__ import annotations

import itertools

import pytest

import keff
from keff import answers

CHOICE = answers.space("choice")
JOINTS = [
    " and ",
    " or ",
    ", ",
    "; ",
    "/",
    " & ",
    ", and ",
    " and/or ",
    " as well as ",
    "、",
    "和",
    " und ",
    " oder ",
]
JOINTS += [" et ", " ou ", " y ", " o ", " и ", " или ", "と", " lub ", " або "]
LABELS = ["{}", "({})", "**{}**", "{})"]
FRAMES = [
    "The answer is {}.",
    "Answer: {}",
    "Final answer: either {}",
    r"So \boxed{{{}}}",
    "**Answer:** {}",
    "I choose {}.",
]


@pytest.mark.parametrize("joint", JOINTS)
def test_several_labels_abstain(joint: str) -> None:
    for (one, two), label in itertools.product(itertools.combinations("ABCD", 2), LABELS):
        said = f"{label.format(one)}{joint}{label.format(two)}"
        assert CHOICE.key(said) is None, said
        for frame in FRAMES:
            assert answers.read(CHOICE, frame.format(said)).key is None, (frame, said)


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
