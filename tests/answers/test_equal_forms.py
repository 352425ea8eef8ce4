"""Answers that mean the same have one key, and no others do: tables, and properties of generated answers."""

from __future__ import annotations

import json
import random
from datetime import date, timedelta
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import made, objects
from drawn import value as json_value
from equal_forms import EQUAL_FORMS
from how_many import examples
from keff.answers import read, space

CASES = [(spec, forms) for spec, classes in EQUAL_FORMS.items() for forms in classes]


@pytest.mark.parametrize(("spec", "forms"), CASES, ids=[f"{spec}-{forms[0]!r:.30}" for spec, forms in CASES])
def test_forms_of_one_answer_have_one_key(spec: str, forms: list[str]) -> None:
    each = space(spec)
    keys = {form: each.key(form) for form in forms}
    assert None not in keys.values()
    assert len(set(keys.values())) == 1, keys
    key = next(iter(keys.values()))
    assert key is not None
    assert each.key(key) == key
    assert all(each.correct(form, forms[0]) for form in forms)


@pytest.mark.parametrize("spec", EQUAL_FORMS)
def test_different_answers_have_different_keys(spec: str) -> None:
    each = space(spec)
    for one, other in combinations(EQUAL_FORMS[spec], 2):
        assert each.key(one[0]) != each.key(other[0]), (one[0], other[0])


DOCUMENTS = objects(least=1)
JSON = space("json")


def shuffled(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict):
        names = list(value)
        rng.shuffle(names)
        return {name: shuffled(value[name], rng) for name in names}
    return [shuffled(each, rng) for each in value] if isinstance(value, list) else value


def written(value: Any, rng: random.Random) -> str:
    text = json.dumps(
        shuffled(value, rng), indent=rng.choice([None, 0, 2, 4]), ensure_ascii=rng.random() < 0.5
    )
    frames = ("{0}", "```json\n{0}\n```", "Here it is:\n\n{0}\n", "As in [1]:\n```\n{0}\n```\nThat is all.")
    return rng.choice(frames).format(text)


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None)
@given(document=DOCUMENTS, rng=made(lambda rng: rng))
def test_layout_and_order_of_names_never_change_a_json_key(document: Any, rng: random.Random) -> None:
    plain = JSON.key(json.dumps(document))
    assert plain is not None
    said = read(JSON, written(document, rng))
    assert said.key == plain
    assert JSON.key(plain) == plain
    assert plain.encode("utf-8")


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None)
@given(document=DOCUMENTS, rng=made(lambda rng: rng), value=made(lambda rng: json_value(rng, depth=0)))
def test_a_changed_value_always_changes_a_json_key(document: Any, rng: random.Random, value: Any) -> None:
    name = rng.choice(list(document))
    changed = {**document, name: value}
    same = json.dumps(value, sort_keys=True) == json.dumps(document[name], sort_keys=True)
    both_numbers = all(type(each) in (int, float) for each in (value, document[name]))
    if same or (both_numbers and value == document[name]):
        return
    assert JSON.key(json.dumps(document)) != JSON.key(json.dumps(changed))


@settings(max_examples=examples(30), deadline=None)
@given(document=DOCUMENTS, cut=st.floats(0.05, 0.95))
def test_json_that_breaks_off_never_votes(document: Any, cut: float) -> None:
    text = json.dumps(document, indent=1)
    assert read(JSON, text[: max(1, int(cut * len(text)))]).key is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "a": 2}', "duplicate name 'a'"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": Infinity}', "Infinity is not JSON"),
        ('{"a": 1', "incomplete JSON"),
        ('{"outer": {"a": 1}', "incomplete JSON"),
        ("{'a': 1}", "not valid JSON"),
        ('{"a": 1} but {"b": ...}', "not valid JSON"),
        ("[" * 10_000 + "]" * 10_000, "nested more than 100 deep"),
        ('{"a":' * 10_000 + "1" + "}" * 10_000, "nested more than 100 deep"),
        ('{"a": "' + "x" * 10_000_000 + '"}', "longer than 1,000,000 characters"),
        ("no idea", "no JSON in the text"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_not_json_abstains_with_its_reason(text: str, reason: str) -> None:
    said = read(JSON, text)
    assert (said.key, said.rule) == (None, reason)
    assert JSON.key(text) is None


@pytest.mark.slow
@pytest.mark.parametrize("spec", EQUAL_FORMS)
@pytest.mark.parametrize(
    "text",
    ["(" * 10_000, "[" * 10_000 + "]" * 10_000, "x " * 600_000, "1+" * 10_000 + "1", "SELECT (" * 5_000],
)
def test_hostile_texts_are_survived(spec: str, text: str) -> None:
    read(space(spec), text)
    read(space(spec), f"Final answer: {text}")
    space(spec).key(text)


def test_fields_and_paths_say_what_votes() -> None:
    each = space("json:fields=result.total,items[*].id")
    one = '{"result": {"total": 3, "why": "because"}, "items": [{"id": 1, "x": 2}, {"id": 2}]}'
    two = '{"items": [{"id": 1}, {"id": 2.0}], "result": {"total": 3.0}}'
    key = each.key(one)
    assert key == each.key(two) == '{"items[*].id":[1,2],"result.total":3}'
    assert each.key(key) == key
    said = read(each, '{"result": {"total": 3}}')
    assert (said.key, said.rule) == (None, "no field 'items[*].id'")
    ignoring = space("json:ignore=why,x")
    assert ignoring.key(one) == ignoring.key('{"result":{"total":3},"items":[{"id":1},{"id":2}]}')
    assert ignoring.correct(one, json.loads(two))


@pytest.mark.parametrize(
    "text",
    ["1 000 00", "12 34", "1,234,56", "12_34", "5'11", "1.000 000", "1 000,500", "1000 000", "3,5", "1 2 3"],
)
def test_a_part_of_a_number_is_never_read(text: str) -> None:
    numeric = space("numeric")
    assert numeric.key(text) is None
    for form in ("#### {}", "Final answer: {}", "The answer is {}."):
        assert read(numeric, form.format(text)).key is None, form


def test_a_million_is_read_whole() -> None:
    said = read(space("numeric"), "So 999 000 + 1 000 = 1 000 000.\n#### 1 000 000")
    assert said.key == "1000000"


GROUPS = st.sampled_from([",", " ", "'", "_", "\u202f", "\u00a0", "\u2009", "’"])


@settings(max_examples=examples(100), deadline=None)
@given(
    number=st.integers(1000, 10**12), mark=GROUPS, form=st.sampled_from(["#### {}", "Final answer: {}", "{}"])
)
def test_thousands_separators_never_change_a_number(number: int, mark: str, form: str) -> None:
    text = f"{number:,}".replace(",", mark)
    assert read(space("numeric"), form.format(text)).key == str(number)


@settings(max_examples=examples(30), deadline=None)
@given(days=st.integers(0, 60_000), other=st.integers(1, 5000))
def test_every_day_has_one_key_in_every_form(days: int, other: int) -> None:
    dates = space("date")
    day = date(1900, 1, 1) + timedelta(days)
    forms = (
        f"{day:%d %B %Y}",
        f"{day:%B} {day.day}, {day.year}",
        f"{day:%b} {day.day} {day.year}",
        f"{day:%A}, {day.day} {day:%B %Y}",
        day.isoformat(),
    )
    assert {dates.key(form) for form in forms} == {day.isoformat()}
    assert dates.key((day + timedelta(other)).isoformat()) != day.isoformat()
    assert space("date:order=dmy").key(f"{day:%d/%m/%Y}") == day.isoformat()
    assert space("date:order=mdy").key(f"{day:%m/%d/%Y}") == day.isoformat()


def test_dates_that_nobody_can_know_abstain_with_a_reason() -> None:
    dates = space("date")
    assert read(dates, "Final answer: 03/04/2024").key is None
    assert read(dates, "Final answer: 31 February 2024").rule == "no such day"
    assert read(dates, "Final answer: 5 March 2024 or 6 March 2024").key is None


@settings(max_examples=examples(30), deadline=None)
@given(meters=st.integers(1, 10**9), other=st.integers(1, 10**6))
def test_units_never_change_an_amount_and_amounts_always_do(meters: int, other: int) -> None:
    amounts = space("quantity")
    key = amounts.key(f"{meters} m")
    assert key is not None
    assert key == amounts.key(f"{meters / 1000!r} km") or meters > 2**50
    assert key == amounts.key(f"{meters * 100} cm") == amounts.key(f"{meters}/1000 kilometers")
    assert key != amounts.key(f"{meters + other} m")
    assert key != amounts.key(f"{meters} s")


def test_an_unknown_unit_abstains_with_its_name() -> None:
    said = read(space("quantity"), "Final answer: 5 apples")
    assert (said.key, said.rule) == (None, "unknown unit 'apples'")


def test_labels_by_table_and_rejected_names() -> None:
    each = space("label", labels={"refund": ["money back", "reimbursement"], "billing": ["invoice"]})
    assert read(each, "Final answer: Money-Back").key == "refund"
    assert read(each, "This is not about an invoice. It is a reimbursement.").key == "refund"
    assert read(each, "Final answer: refund or invoice").key is None
    assert each.closed
    assert "refund, billing" in each.contract
