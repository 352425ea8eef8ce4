"""Which fields of JSON answers vote: by schema, by the first answers, and what is said of the others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from keff.answers import proposed_fields, read, schema_of, space, voting_fields

LONG = "First I weigh the two offers, then I add the tax of each of them and compare what is left of both."


def object_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


NUMBER, TEXT, INTEGER = {"type": "number"}, {"type": "string"}, {"type": "integer"}
OFFER = object_of(reasoning=TEXT, winner={"enum": ["north", "south"]}, total=NUMBER, sure={"type": "boolean"})


def offers(count: int) -> list[str]:
    made = [
        {"reasoning": f"{LONG} {i}", "winner": "north", "total": 40 + i % 2, "sure": True}
        for i in range(count)
    ]
    return [json.dumps(each) for each in made]


@pytest.mark.parametrize(
    "given",
    [
        OFFER,
        {"type": "json_schema", "json_schema": {"name": "offer", "schema": OFFER}},
        {"type": "json_schema", "name": "offer", "schema": OFFER},
        {"type": "function", "function": {"name": "choose", "parameters": OFFER}},
        {"name": "choose", "input_schema": OFFER},
        {"type": "json_object"},
        None,
    ],
)
def test_reasoning_leaves_the_vote_and_is_named(given: object) -> None:
    found = voting_fields(offers(4), given)
    assert found.fields == ("winner", "total", "sure")
    assert dict(found.left_out) == {"reasoning": "it is longer than 60 characters in most answers"}
    assert found.space == "json:fields=winner,total,sure"
    keys = {read(space(found.space), text).key for text in offers(6)}
    assert len(keys) == 2


def test_what_does_not_repeat_in_the_first_four_leaves_the_vote() -> None:
    schema = object_of(headline=TEXT, weight=NUMBER, city=TEXT)
    answers = [
        json.dumps({"headline": f"Harbour {i}", "weight": 0.7 + i / 100, "city": "Oslo" if i else "Bergen"})
        for i in range(8)
    ]
    found = voting_fields(answers, schema)
    assert found.fields == ("city",)
    assert set(found.left_out) == {"headline", "weight"}
    assert all("does not repeat in the first 4" in reason for reason in found.left_out.values())
    # The fifth answer repeats the first: the first four decide.
    again = voting_fields([*answers[:4], answers[0]], schema)
    assert again.fields == ("city",)
    assert voting_fields(answers[:3], schema).fields == ("headline", "weight", "city")


def test_nothing_left_is_free_text_and_an_only_number_stays() -> None:
    lines = [json.dumps({"title": f"Song {i}", "tempo": 90 + i}) for i in range(4)]
    assert voting_fields(lines, object_of(title=TEXT, tempo=INTEGER)).space is None
    hard = [json.dumps({"reasoning": f"{LONG}{i}", "result": 7 * i}) for i in range(4)]
    assert voting_fields(hard, object_of(reasoning=TEXT, result=INTEGER)).fields == ("result",)
    assert voting_fields([], OFFER).fields == ("winner", "total", "sure")
    assert voting_fields(["no JSON", "nor here"]).space is None


def test_dates_optional_nested_and_array_fields() -> None:
    schema = object_of(
        due={"type": "string", "format": "date"},
        person={"$ref": "#/$defs/person"},
        lines={"type": "array", "items": object_of(sku=TEXT, note=TEXT)},
        tags={"type": "array", "items": TEXT},
        kind={"const": "invoice"},
        size={"anyOf": [INTEGER, {"type": "null"}]},
        extra={},
    ) | {"$defs": {"person": object_of(name=TEXT)}}
    value = {
        "due": "2031-05-06",
        "person": {"name": "Ida"},
        "lines": [{"sku": "a", "note": LONG}, {"sku": "b", "note": LONG}],
        "tags": ["x", "y"],
        "kind": "invoice",
        "size": None,
        "extra": {"deep": {"n": 3}},
    }
    found = voting_fields([json.dumps(value)] * 4, schema)
    assert found.fields == ("due", "person.name", "lines[*].sku", "tags", "size", "extra.deep.n")
    assert set(found.left_out) == {"lines[*].note", "kind"}
    assert found.space is not None
    assert read(space(found.space), json.dumps(value)).key is not None


def test_a_field_that_some_answers_lack_makes_them_abstain_and_one_that_most_lack_leaves() -> None:
    whole, part = json.dumps({"a": 1, "b": 2}), json.dumps({"a": 1})
    schema = object_of(a=INTEGER, b=INTEGER)
    found = voting_fields([whole, whole, whole, part], schema)
    assert found.space == "json:fields=a,b"
    assert read(space(found.space), part).rule == "no field 'b'"
    assert dict(voting_fields([whole, part, part, part], schema).left_out) == {
        "b": "it is missing in most answers"
    }


def recursive() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"label": INTEGER, "children": {"type": "array", "items": {"$ref": "#"}}},
    }


BOMB = {
    "$ref": "#/$defs/n0",
    "$defs": {f"n{i}": {"anyOf": [{"$ref": f"#/$defs/n{i + 1}"}] * 9} for i in range(30)},
}


@pytest.mark.parametrize(
    ("schema", "note"),
    [
        (object_of(**{f"f{i}": INTEGER for i in range(5000)}), "more than 64 fields"),
        (BOMB | {"$defs": BOMB["$defs"] | {"n30": INTEGER}}, "too large"),
        (object_of(a={"$ref": "#/nowhere"}), "is not in it"),
        ({"properties": {"a": 3}}, "not a JSON schema"),
        ({"properties": {"a": {"$ref": "https://example.org/x.json"}}}, "is not in it"),
    ],
    ids=["wide", "bomb", "dangling", "wrong", "foreign"],
)
def test_a_schema_that_cannot_be_used_is_said_and_the_answers_decide(schema: object, note: str) -> None:
    found = voting_fields(offers(4), schema)
    assert note in found.note
    assert found.fields == ("winner", "total", "sure")


def test_a_recursive_schema_votes_on_the_rest() -> None:
    tree = {"label": 1, "children": [{"label": 2, "children": []}]}
    found = voting_fields([json.dumps(tree)] * 4, recursive())
    assert found.fields == ("label",)
    assert dict(found.left_out) == {"children": "it refers to itself"}


def test_names_that_no_path_can_say_are_named() -> None:
    text = json.dumps({"a,b": 1, "c[": 2, "d e": "x"})
    found = voting_fields([text] * 4)
    assert found.fields == ("a,b", "d e")
    assert dict(found.left_out) == {"c[": "its name cannot be written as a path"}
    assert found.space is not None
    assert space(found.space).key(text) == '{"a,b":1,"d e":"x"}'


def test_answers_that_are_no_objects_vote_whole() -> None:
    assert voting_fields(["[1, 2]", "[1, 2]"], {"type": "array", "items": INTEGER}).space == "json"
    assert voting_fields(['[{"n": 1}]'] * 4).space == "json:fields=[*].n"
    assert voting_fields(['["a"]', '["b"]', '["c"]', '["d"]']).space is None


def test_a_record_proposes_what_repeats_in_half_of_its_questions() -> None:
    questions = [
        [
            json.dumps({"why": f"{LONG}{q}{i}", "n": q + (i % 3 if q % 3 else i), "p": q + i / 9})
            for i in range(6)
        ]
        for q in range(30)
    ]
    found = proposed_fields(questions)
    assert found.fields == ("n",)
    assert set(found.left_out) == {"why", "p"}
    assert schema_of({"type": "text"}) is None


NODES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.just({"type": "integer"}),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "$ref", "anyOf", "enum", "const", "a", "x.y", ""]
            ),
            inner | st.sampled_from(["object", "array", "string", "#", "#/a", ["string", "null"]]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None)
@given(schema=NODES, answers=st.lists(NODES.map(json.dumps) | st.text(max_size=8), max_size=5))
def test_any_schema_and_any_answers_are_survived(schema: object, answers: list[str]) -> None:
    found = voting_fields(answers, schema)
    assert not set(found.fields) & set(found.left_out)
    if found.space is not None:
        each = space(found.space)
        for answer in answers:
            read(each, answer)
