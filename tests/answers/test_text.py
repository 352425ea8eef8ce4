"""Short spans read from completions such as models write, and compared."""

from __future__ import annotations

import pytest

from keff.answers import space
from keff.answers.text import normalised, token_f1

TEXT = space("text")
EXACT = space("text", match="exact")

CORPUS = [
    ("Final answer: Paris", "Paris"),
    ("The answer is Paris. It is the capital of France.", "Paris"),
    ("The answer is **Paris**, the capital.", "Paris"),
    ("**Answer:** Marie Curie", "Marie Curie"),
    ("Answer: Washington D.C.", "Washington D.C."),
    ("The answer is Dr. Seuss. He wrote it in 1957.", "Dr. Seuss"),
    ("The answer is St. Louis.", "St. Louis"),
    ('The answer is "The Beatles".', "The Beatles"),
    ("Answer: Martin Luther King Jr.", "Martin Luther King Jr."),
    ("Final Answer\n\nRidley Scott", "Ridley Scott"),
    ("### Final Answer:\n**Ridley Scott**", "Ridley Scott"),
    ("\\boxed{\\text{Paris}}", "Paris"),
    ("<answer>Paris</answer>", "Paris"),
    ("Answer: 5 May 1990.", "5 May 1990"),
    ("The answer is yes.", "yes"),
    ("The answer is 1,234.", "1,234"),
    ("First I thought the answer is Rome. But the answer is Milan.", "Milan"),
    ("The film was made by the same man.\nAnswer: Ridley Scott", "Ridley Scott"),
    ("The answer to the question is: Lake Como", "Lake Como"),
    ("The correct answer is that Barack Obama won.", "Barack Obama won"),
    ("Answer: J. R. R. Tolkien", "J. R. R. Tolkien"),
    ("Answer: `main.py`", "main.py"),
    ("Answer: Guns N' Roses", "Guns N' Roses"),
    ("Answer: AC/DC", "AC/DC"),
    ("Answer: São Paulo", "São Paulo"),
    ("Answer: Beyoncé Knowles", "Beyoncé Knowles"),
    ("Answer: 東京", "東京"),
    ("Answer: الأردن\u200f", "الأردن"),
    ("<think>The answer is Rome.</think>The answer is Paris.", "Paris"),
    ("maybe Rome</think>Final answer: Paris", "Paris"),
    ("My final answer is: Lionel Messi!", "Lionel Messi"),
    ("Final answer: The Lord of the Rings: The Two Towers", "The Lord of the Rings: The Two Towers"),
    ("Final answer: $5.5 million", "$5.5 million"),
    ("Short answer: Mount Everest", "Mount Everest"),
    ("#### Blue whale", "Blue whale"),
    ("Final answer: Yahoo!", "Yahoo!"),
    # heuristics
    ("Paris", "Paris"),
    ("Paris.", "Paris"),
    ("It was built in the 1880s.\n\nGustave Eiffel", "Gustave Eiffel"),
    ("It flows through Vienna.\nThe Danube", "The Danube"),
    # abstentions
    ("Final answer: <short answer>", None),
    ("This was a question about who, among all the many directors of the last century, made the film.", None),
    ("<think>The answer is Rome.", None),
    ("", None),
    ("   \n ", None),
]


@pytest.mark.parametrize(("text", "answer"), CORPUS)
def test_reads_completions(text: str, answer: str | None) -> None:
    found = TEXT.extract(text)
    assert (found and TEXT.key(found.answer)) == (answer and TEXT.key(answer))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Answer: Paris\nIt is the", "Paris"),
        ("Answer: Paris", None),
        ("Ridley Scott", None),
        ("\\boxed{Paris} is", "Paris"),
    ],
)
def test_truncated_text_gives_only_whole_explicit_answers(text: str, answer: str | None) -> None:
    found = TEXT.extract(text, truncated=True)
    assert (found and found.answer) == answer


@pytest.mark.parametrize(
    "forms",
    [
        ["The Beatles", "beatles", "Beatles.", "  the   beatles ", "\u201cThe Beatles\u201d"],
        ["5 yards", "5.0 yards", "five".replace("five", "5 yards")],
        ["1,234", "1234", "$1,234", "1234.0"],
        ["Guns N' Roses", "guns n roses", "Guns N\u2019 Roses"],
    ],
)
def test_one_span_has_one_key(forms: list[str]) -> None:
    assert len({TEXT.key(form) for form in forms}) == 1


def test_points_of_numbers_are_no_punctuation() -> None:
    assert normalised("12.5") != normalised("125")


def test_articles_and_punctuation_alone_are_kept() -> None:
    assert normalised("The") == "the"
    assert normalised("?") == "?"
    assert TEXT.correct("A", "A")


def test_token_f1_against_hand_counts() -> None:
    assert token_f1("cat sat on mat", "cat on mat") == pytest.approx(2 * 3 / 7)
    assert token_f1("x y", "z") == 0
    assert token_f1("new new york", "new york") == pytest.approx(2 * 2 / 5)


def test_f1_of_one_half_is_enough_unless_the_gold_is_a_number_or_yes_or_no() -> None:
    assert TEXT.correct("Sir Ridley Scott", "Ridley Scott")
    assert TEXT.correct("New York City area", "New York")  # 2*2/6
    assert not TEXT.correct("the big New York City area", "York")
    assert TEXT.correct("5 yards", "5")
    assert not TEXT.correct("5 of 6", "5")
    assert not TEXT.correct("1990", "1991")
    assert not TEXT.correct("yes indeed", "yes")
    assert not TEXT.correct("no", "no answer")


def test_exact_takes_any_alias_and_nothing_near() -> None:
    aliases = ["United Kingdom", "UK", "The U.K."]
    assert EXACT.correct("u.k.", aliases)
    assert EXACT.correct("the United Kingdom", aliases)
    assert not EXACT.correct("United Kingdom of Great Britain", aliases)
    assert TEXT.correct("United Kingdom of Britain", aliases)
