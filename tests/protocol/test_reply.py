"""Reading responses: counts of tokens, summaries of log-probabilities, and bodies that make no sense."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn import jsons
from keff.errors import EngineError
from keff.narrow import fields
from keff.protocol.reply import (
    apportion,
    choices_of,
    completions,
    reply_of,
    summarize,
    token_counts,
    tokens_of,
    with_answer,
)
from keff.records import Logprobs


@given(st.integers(0, 10**6), st.lists(st.integers(0, 1000), min_size=1, max_size=20))
def test_apportioned_parts_sum_to_the_whole(total: int, weights: list[int]) -> None:
    """Each part lies within one of its exact share."""
    parts = apportion(total, weights)
    assert sum(parts) == total
    if any(weights):
        exact = [total * weight / sum(weights) for weight in weights]
        assert all(abs(part - share) < 1 + 1e-6 for part, share in zip(parts, exact, strict=True))


def test_summary_of_log_probabilities() -> None:
    values = [-0.1 * i for i in range(1, 21)]
    assert summarize(values) == Logprobs(pytest.approx(-1.05), pytest.approx(-1.95), pytest.approx(-21.0))
    assert summarize([-2.0, float("-inf"), float("nan")]) == Logprobs(-2.0, -2.0, -2.0)
    assert summarize([]) is None


TOKENS = ["So", " 1", "4", ", not", " 4", "2", "; it is", " 4", ".", " See", " 14", "4", " or", " x"]


@pytest.mark.parametrize(
    ("answer", "places"),
    # Two tokens of one number, not within another number; a part of a token; only within one; nowhere.
    [
        ("42", [4, 5]),
        ("4", [7]),
        ("14", [1, 2]),
        ("is 4.", [6, 7, 8]),
        ("2", [5]),
        ("5", []),
        (None, []),
        ("", []),
    ],
)
def test_the_answer_s_log_probability_is_the_mean_over_the_tokens_where_it_stands_last(
    answer: str | None, places: list[int]
) -> None:
    values = [-0.5 * 2**-at for at in range(len(TOKENS))]
    told = with_answer(summarize(values, TOKENS), answer)
    assert told is not None and told.tokens is None
    mean = sum(values[at] for at in places) / len(places) if places else None
    assert told.answer == (None if mean is None else pytest.approx(mean))


@pytest.mark.parametrize(
    ("text", "answer", "at"),
    # An answer that fills half the text, overlaps itself everywhere and always stands within a word; one that
    # is nearly everywhere, and nowhere.
    [
        ("aa " * 500_000, "a " + "aa " * 250_000 + "a", 1_500_000 - 750_005),
        ("a" * 1_500_000, "a" * 500_000 + "b" + "a" * 250_000, None),
    ],
)
def test_a_text_that_repeats_its_answer_takes_no_time_that_grows_with_its_square(
    text: str, answer: str, at: int | None
) -> None:
    """At 10^12 comparisons this would not end."""
    half = len(text) if at is None else at
    summary = summarize([-1.0, -2.0], [text[:half], text[half:]])
    told = with_answer(summary, answer)
    assert told is not None and told.answer == (None if at is None else -2.0)


@pytest.mark.parametrize("texts", [[], TOKENS[:-1], [*TOKENS, "."]])
def test_without_every_token_the_answer_s_log_probability_is_not_known(texts: list[str]) -> None:
    told = with_answer(summarize([-0.5] * len(TOKENS), texts), "4")
    assert told == Logprobs(-0.5, -0.5, -0.5 * len(TOKENS))
    assert with_answer(None, "4") is None


def choice(text: str, tokens: int = 0, thinking: str = "") -> dict:
    entries = [{"logprob": -1.0}] * tokens
    return {"message": {"content": text, "reasoning": thinking}, "logprobs": {"content": entries}}


def test_tokens_are_counted_by_the_best_evidence() -> None:
    def counts(choices: list[dict], usage: int | None) -> list[int]:
        return token_counts(choices, [len(tokens_of(each)[0]) for each in choices], usage)

    two = [choice("ab", 3), choice("abcdef", 5)]
    assert counts(two[:1], 9) == [9]
    assert counts(two[:1], None) == [3]
    assert counts(two, 8) == [3, 5]
    assert counts(two, 3) == [3, 5]
    assert counts([choice("a", 3, "xx"), choice("b", 5, "xxxxxx")], 16) == [5, 11]
    assert counts([choice("ab"), choice("abcdef")], 8) == [2, 6]
    assert counts([choice("ab"), choice("abcdef")], None) == [1, 2]


json_values = jsons(
    (), ["choices", "message", "content", "index", "logprobs", "usage", "error", "x"], kinds=4
)


@pytest.mark.parametrize("content", [7, {"text": "7"}, True])
def test_content_of_another_type_is_no_empty_answer(content: object) -> None:
    """An empty text would be kept, and vote for nothing, where the server drew a path."""
    body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": content}}]}
    with pytest.raises(EngineError, match="malformed choice"):
        choices_of(body)


def told(token: object, logprob: object, **more: object) -> dict:
    return {"token": token, "logprob": logprob, "bytes": [80], "top_logprobs": [{"token": "x"}], **more}


@pytest.mark.parametrize(
    "content",
    [
        [told("a", -0.5), told(" b", -1), told("", 0.0)],
        [told("a", -0.5), told("b", None), told(7, True), told("c", "-1"), told("d", 2.5), "no token"],
        [{"logprob": -1.0}],
        [],
        None,
        {"token": "a"},
    ],
)
@pytest.mark.parametrize(
    "more", ["", ', "odd": NaN', ', "odd": "\\ud800"', ', "odd": ' + "[" * 3000 + "]" * 3000]
)
def test_what_is_skipped_of_a_reply_changes_nothing_that_is_read_of_it(content: object, more: str) -> None:
    choices = [
        {
            "index": place,
            "message": {"content": text},
            "finish_reason": "length",
            "logprobs": {"content": content},
        }
        for place, text in enumerate(["one", "two"])
    ]
    body = {"id": "x", "choices": choices, "usage": {"prompt_tokens": 3, "completion_tokens": 9}}
    raw = (json.dumps(body)[:-1] + more + "}").encode()
    try:
        read = fields(reply_of(raw))
    except ValueError:
        assert more.endswith("]")  # nested too deeply for every reader
        return
    assert completions(read, choices_of(read), 1.0) == completions(body, choices_of(body), 1.0)
    assert tokens_of(choices_of(read)[0]) == tokens_of(choices_of(body)[0])


@given(json_values)
def test_any_json_is_completions_or_an_engine_error(body: object) -> None:
    try:
        choices = choices_of(body)
        drawn = completions(fields(body), choices, 0.0)
    except EngineError:
        return
    assert len(drawn) == len(choices)
    json.dumps([one.text for one in drawn])
