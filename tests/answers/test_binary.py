"""Yes and no read from completions such as models write."""

from __future__ import annotations

import pytest

from keff.answers import space

BINARY = space("binary")

CORPUS = [
    ("Yes", "yes"),
    ("no.", "no"),
    ("**Yes**", "yes"),
    ("Yes, the passage says that the bridge was closed.", "yes"),
    ("No, there is no evidence for that.", "no"),
    ("Final answer: yes", "yes"),
    ("Final answer: **No**", "no"),
    ("The answer is no.", "no"),
    ("The answer is: Yes", "yes"),
    ("The answer is clearly yes, since it is stated.", "yes"),
    ("Answer: True", "yes"),
    ("answer: false", "no"),
    ("\\boxed{\\text{yes}}", "yes"),
    ("\\boxed{No}", "no"),
    ("<answer>no</answer>", "no"),
    ("#### yes", "yes"),
    ("Answer (yes or no): no", "no"),
    ("Answer yes or no.\nThe passage states it, so yes.", "yes"),
    ("Yes/No? The law was never passed. So: No.", "no"),
    ("There is no evidence for this, but the law says so. Therefore, yes.", "yes"),
    ("At first sight, yes. But the answer is no.", "no"),
    ("The answer is yes. Hmm, wait. The answer is no.", "no"),
    ("Yes. The answer to the question is yes.", "yes"),
    ("The statement is false.", "no"),
    ("The claim is therefore true.", "yes"),
    ("The passage says that it is not true.", None),
    ("The answer is that, yes, they can.", "yes"),
    ("Final Answer\n\nNo", "no"),
    ("**Answer:** Yes. It does.", "yes"),
    ("YES!", "yes"),
    ("<think>no no no, the answer is no</think>Yes.", "yes"),
    ("the answer must be no</think> Final answer: yes", "yes"),
    ("The correct answer is \u201cNo\u201d.", "no"),
    ("Ｙes \uff59\uff45\uff53. Answer: \uff59\uff45\uff53", "yes"),
    ("Based on the passage, the answer would be no", "no"),
    ("No. Although the king was crowned, he never ruled.", "no"),
    ("So, is it in Europe? Yes, it is.", "yes"),
    ("I conclude: no", "no"),
    ("The final answer is True.", "yes"),
    ("Answer: no one knows, so no.", "no"),
    ("The answer is 'No'", "no"),
    ("The answer should be: yes", "yes"),
    # abstentions
    ("No evidence is given in the passage", None),
    ("It is not clear whether the passage says so.", None),
    ("Final answer: <yes or no>", None),
    ("There are yes votes and no votes.", None),
    ("Some say yes, some say no.", None),
    ("Nobody knows", None),
    ("yesterday was fine", None),
    ("<think>yes", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "key"), CORPUS)
def test_reads_completions(text: str, key: str | None) -> None:
    found = BINARY.extract(text)
    assert (found and BINARY.key(found.answer)) == key


@pytest.mark.parametrize(
    ("text", "key"),
    [("The answer is yes because", "yes"), ("Yes, the passage says", None), ("So it seems that, no", None)],
)
def test_truncated_text_gives_only_explicit_answers(text: str, key: str | None) -> None:
    found = BINARY.extract(text, truncated=True)
    assert (found and BINARY.key(found.answer)) == key


def test_gold_may_be_a_bool_or_a_word() -> None:
    for gold in (True, "yes", "True", "YES."):
        assert BINARY.correct("yes", gold)
        assert BINARY.correct("true", gold)
        assert not BINARY.correct("no", gold)
    assert BINARY.correct("False", False)
    assert BINARY.key("maybe") is None
