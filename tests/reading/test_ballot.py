"""From recorded questions to votes: keys, correctness, trimming, labels, slots and clusters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keff.errors import LogError
from keff.log import Question
from keff.reading.ballot import Reading, ballot

FOLD = Reading(str.casefold, lambda answer, gold: answer.casefold() == str(gold).casefold())


def question(name: str, answers: str, **fields: object) -> Question:
    """One letter a path; a dot abstains."""
    return Question(name, tuple(None if letter == "." else letter for letter in answers), **fields)  # type: ignore[arg-type]


def codes(*questions: Question, **options: object) -> list[list[int]]:
    found = ballot(questions, FOLD, **options).votes.answers  # type: ignore[arg-type]
    assert found is not None
    return found.tolist()


def test_equal_keys_get_equal_codes_within_a_question_and_abstentions_minus_one() -> None:
    assert codes(question("1", "bB.a"), question("2", "aacb")) == [[0, 0, -1, 1], [0, 0, 1, 2]]


def test_in_a_closed_answer_set_codes_mean_the_same_everywhere() -> None:
    closed = Reading(str.casefold, FOLD.correct, closed=True)
    found = ballot([question("1", "ba"), question("2", "ab")], closed).votes.answers
    assert found is not None
    assert found.tolist() == [[0, 1], [1, 0]]


def test_questions_without_paths_are_refused() -> None:
    with pytest.raises(LogError, match="no paths"):
        ballot([question("1", ""), question("2", "")], FOLD)


def test_the_records_own_correctness_wins_over_the_gold_answer() -> None:
    found = ballot([question("1", "aa.", gold="a", correct=(1, 0, 0))], FOLD).votes.correct
    assert found is not None
    assert found.tolist() == [[1, 0, 0]]


def test_gold_answers_score_where_the_record_does_not() -> None:
    found = ballot([question("1", "Ab.", gold="a")], FOLD).votes.correct
    assert found is not None
    assert found.tolist() == [[1, 0, 0]]


def test_a_correct_abstention_counts_as_wrong_with_a_note() -> None:
    found = ballot([question("1", ".a", correct=(1, 1))], FOLD)
    assert found.votes.correct is not None
    assert found.votes.correct.tolist() == [[0, 1]]
    assert [note.code for note in found.notes] == ["abstained_correct"]


def test_without_any_label_there_is_no_correctness_and_some_labels_leave_the_rest_out() -> None:
    assert ballot([question("1", "ab")], FOLD).votes.correct is None
    mixed = ballot([question("1", "ab"), question("2", "ab", gold="a")], FOLD)
    assert [one.id for one in mixed.questions] == ["2"]
    assert [note.code for note in mixed.notes] == ["unlabelled"]


def test_slightly_ragged_records_are_trimmed_with_a_note() -> None:
    found = ballot([question("1", "a" * 9), question("2", "a" * 10)], FOLD)
    assert found.votes.k == 9
    assert [note.code for note in found.notes] == ["trimmed"]


def test_very_ragged_records_are_refused_with_the_flag_that_would_do_it() -> None:
    rows = [question("1", "aa"), *(question(str(i), "a" * 8) for i in range(2, 9))]
    with pytest.raises(LogError, match="--trim 8"):
        ballot(rows, FOLD)
    found = ballot(rows, FOLD, trim=8)
    assert (found.votes.n, found.votes.k) == (7, 8)
    assert {note.code for note in found.notes} == {"trimmed", "short_questions"}


@pytest.mark.parametrize("trim", [0, 11])
def test_an_impossible_trim_says_what_there_is(trim: int) -> None:
    with pytest.raises(LogError, match="have 9 to 10 paths"):
        ballot([question("1", "a" * 9), question("2", "a" * 10)], FOLD, trim=trim)


def test_nothing_at_all_is_refused() -> None:
    with pytest.raises(LogError, match="no questions"):
        ballot([], FOLD)


def test_slots_and_clusters() -> None:
    found = ballot(
        [question("1", "ab", slots=(1, 2), cluster="p"), question("2", "ab", slots=(1, 2), cluster="p")], FOLD
    )
    assert found.votes.slots is not None
    assert found.votes.slots.tolist() == [1, 2]
    assert found.votes.n_clusters == 1
    assert ballot([question("1", "ab", slots=(3, 3))], FOLD).votes.slots is None
    with pytest.raises(LogError, match="different orders"):
        ballot([question("1", "ab", slots=(1, 2)), question("2", "ab", slots=(2, 1))], FOLD)


@given(st.lists(st.lists(st.sampled_from("aAbBc."), min_size=3, max_size=3), min_size=1, max_size=6))
def test_codes_are_equal_exactly_when_keys_are(rows: list[list[str]]) -> None:
    found = ballot([question(str(i), "".join(row)) for i, row in enumerate(rows)], FOLD)
    assert found.votes.answers is not None
    for row, numbers, keys in zip(rows, found.votes.answers, found.keys, strict=True):
        for i, j in np.ndindex(3, 3):
            if "." in (row[i], row[j]):
                assert (keys[i] is None) == (row[i] == ".")
            else:
                assert (numbers[i] == numbers[j]) == (row[i].lower() == row[j].lower())
