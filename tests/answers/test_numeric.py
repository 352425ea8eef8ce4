"""Numbers read from completions such as models write, and compared."""

from __future__ import annotations

import pytest

from keff.answers import space

NUMERIC = space("numeric")

CORPUS = [
    # explicit statements
    ("Natalia sold 48/2 = <<48/2=24>>24 clips in May.\nAltogether 48+24 = <<48+24=72>>72.\n#### 72", "72"),
    ("He made $70,000 of profit.\n#### 70,000", "70000"),
    ("#### $1,234.50", "1234.5"),
    ("#### 18 dollars per day", "18"),
    (
        "#### 1. Count the eggs\n16 eggs.\n#### 2. Subtract\n16 - 7 = 9.\n\nThey sell for $2, so "
        "she makes **$18**.",
        "18",
    ),
    ("Thus the total is \\boxed{540}. There were 3 sprints on 3 days.", "540"),
    ("So the ratio is $\\boxed{\\frac{3}{4}}$.", "0.75"),
    ("First \\boxed{12}, no wait, I forgot the dog. \\boxed{13}", "13"),
    ("\\boxed{1{,}234{,}567}", "1234567"),
    ("\\boxed{18 \\text{ dollars}}", "18"),
    ("\\boxed{\\text{The total is } 25}", "25"),
    ("\\[\\boxed{\\$ 45.00}\\]", "45"),
    ("The final answer is: $\\boxed{260}$. I hope it is correct.", "260"),
    ("**Final Answer**\n\nShe has **64** marbles in 4 bags.", "64"),
    ("### Final Answer\n\\[\n\\boxed{20}\n\\]", "20"),
    ("**Answer:** 366", "366"),
    ("Answer: (694)", "694"),
    ("ANSWER: $13", "13"),
    ("Step 1: 5 * 3 = 15\nStep 2: 15 + 3 = 18\nFinal answer: 18", "18"),
    ("Final answer: 18.\n\nLet me know if you have 2 or more questions!", "18"),
    ("Final Answer: The bakery sold 57 cakes.", "57"),
    ("Final answer: She earns $18 per day when she sells for 2 hours.", "18"),
    ("The answer is 9. Wait, she also bakes. The answer is 5.", "5"),
    ("The answer is 5 * 4 = 20 dollars.", "20"),
    ("The answer is x = -7.", "-7"),
    ("The answer is approximately 3.14", "3.14"),
    ("The answer to the question is 42, as 6 * 7 = 42.", "42"),
    ("The answer is less than 20. Adding 9 and 9 gives 18.", "18"),
    ("<answer>\n48\n</answer>", "48"),
    ("My answer: 1/2 of the cake", "0.5"),
    ("Answer: 3 1/2 hours", "3.5"),
    ("Answer: 50%", "50"),
    ("Answer: 2.5 million people", "2500000"),
    ("Answer: -$5", "-5"),
    ("Answer: \u22125 degrees", "-5"),
    ("Answer: 1\u202f234 km", "1234"),
    ("Answer: 1,00,000 rupees", "100000"),
    ("Answer: 1.5 \\times 10^{3} m", "1500"),
    ("Answer: 6.02e23", "602000000000000000000000"),
    ("الجواب\nAnswer: ٤٢", "42"),
    ("Answer:\u200f १२३", "123"),
    ("答案\n\\boxed{１２}", "12"),
    ("<think>The answer is 12? No, \\boxed{13}.</think>The answer is 14.", "14"),
    ("I guess the answer is 3</think>\nFinal answer: 4", "4"),
    (
        "<|channel|>analysis<|message|>The answer is "
        "7<|end|><|start|>assistant<|channel|>final<|message|>It is 8.<|return|>",
        "8",
    ),
    ("analysisThe answer is 7.assistantfinalThe answer is 9.", "9"),
    ("The answer would be 12 of the 30", "12"),
    ("The answer, then, is 12 of 30", "12"),
    ("The difference is 10 - 5", None),
    # heuristics
    ("Janet sells 9 eggs at $2 each. She makes $18 every day.", "18"),
    ("Therefore, the total distance is 5 + 7 = 12 km.", "12"),
    ("He ran from 7:30 to 8:15 and covered 6 miles between 7:30 and 8:15", "6"),
    ("In total that makes 1,080 H2O molecules", "1080"),
    # abstentions
    ("Final answer: <number>", None),
    ("Answer: 3,5", None),
    ("Answer: 5 to 7", None),
    ("Final answer: 18 + 2", None),
    ("\\boxed{}", None),
    ("I cannot determine this from what is given.", None),
    ("<think>The answer is 12. Let me check that once", None),
    ("", None),
]

TRUNCATED = [
    ("Answer: 18\nTo check, take 16 and", "18"),
    ("so \\boxed{72} and then we", "72"),
    ("#### 7", None),
    ("The answer is 12", None),
    ("\\boxed{12", None),
    ("First she has 16 eggs, then 9 eggs, which she sells for 2", None),
]


@pytest.mark.parametrize(("text", "key"), CORPUS)
def test_reads_completions(text: str, key: str | None) -> None:
    found = NUMERIC.extract(text)
    assert (found and NUMERIC.key(found.answer)) == key


@pytest.mark.parametrize(("text", "key"), TRUNCATED)
def test_truncated_text_gives_only_explicit_and_whole_answers(text: str, key: str | None) -> None:
    found = NUMERIC.extract(text, truncated=True)
    assert (found and NUMERIC.key(found.answer)) == key


@pytest.mark.parametrize(
    "forms",
    [
        ["0.5", ".5", ".50", "1/2", "\\frac12", "\\frac{1}{2}", "$\\dfrac{1}{2}$", "2/4", "0.50 cups"],
        ["1234", "1,234", "1,234.0", "$1,234", "1234.", "1\u2009234", "１２３４", "x = 1234", "1.234e3"],
        ["-5", "\u22125", "-5.0", "$-5", "-$5", "-5 apples"],
        ["50", "50%", "50\\%", "50 percent"],
        ["1/3", "2/6", "\\frac{1}{3}"],
    ],
)
def test_one_number_has_one_key(forms: list[str]) -> None:
    assert len({NUMERIC.key(form) for form in forms}) == 1
    assert NUMERIC.key(forms[0]) is not None


@pytest.mark.parametrize(
    "answer", ["3,5", "1,23", "7:30", "12/25/2020", "1/0", "5-7", "abc", "", "1e99999", "9" * 5000, "1.2.3"]
)
def test_what_is_no_single_number_abstains(answer: str) -> None:
    assert NUMERIC.key(answer) is None
    assert not NUMERIC.correct(answer, "5")


def test_tolerance_is_absolute_above_one_and_relative_below() -> None:
    assert NUMERIC.correct("17.9995", "18")
    assert not NUMERIC.correct("17.99", "18")
    assert not NUMERIC.correct("70050", "70,000")
    assert not NUMERIC.correct("0", "0.0005")
    assert NUMERIC.correct("0.0004", "0")
    assert space("numeric", tolerance=0.1).correct("17.9", "18")


def test_any_of_several_golds_will_do() -> None:
    assert NUMERIC.correct("12", ["11", "12"])
    assert not NUMERIC.correct("13", ["11", "12"])


def test_the_rule_is_named() -> None:
    rules = {
        "#### 5": "####",
        "\\boxed{5}": "boxed",
        "Answer: 5": "marker",
        "<answer>5</answer>": "tag",
        "it is **5** of 6": "last bold number",
        "it is 5": "last number",
    }
    for text, rule in rules.items():
        found = NUMERIC.extract(text)
        assert found is not None
        assert (found.answer, found.rule) == ("5", rule)
