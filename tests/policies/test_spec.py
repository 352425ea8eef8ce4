"""The grammar of policy strings: one parser, whatever whitespace, parentheses or misspelling it meets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keff.errors import PolicyError
from keff.policy import parse_policy
from keff.policy.spec import MAX_CAP, PolicySpec, format_spec

CASCADE = "cascade:SMALL(lead_k:2,cap=3)/LARGE(lead_k:2,cap=8),keep=votes"
MIX = "mix:SMALL(k=3,weight=1)/LARGE(k=1,weight=2.4)"

names = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
scalars = st.one_of(
    st.integers(-(10**15), 10**15),
    st.floats(allow_nan=False),
    names,
    st.sampled_from(["A(k=3,weight=1)/B.2(lead_k:2,cap=8)", "((a,b),(c=d))"]),
)


def canonical(value: int | float | str) -> int | float | str:
    whole = isinstance(value, float) and value.is_integer() and abs(value) <= 2**53
    return int(value) if whole else value


@pytest.mark.slow
@given(
    name=names.filter(lambda text: text not in ("nan", "inf", "infinity")),
    value=st.none() | scalars.filter(lambda one: one not in ("nan", "inf", "infinity")),
    options=st.dictionaries(
        names.filter(lambda key: key != "value"),
        scalars.filter(lambda one: one not in ("nan", "inf", "infinity")),
        max_size=4,
    ),
)
def test_what_is_written_is_read_back(name: str, value: object, options: dict[str, object]) -> None:
    spec = PolicySpec(
        name,
        None if value is None else canonical(value),  # type: ignore[arg-type]
        {key: canonical(option) for key, option in options.items()},  # type: ignore[arg-type]
    )
    assert PolicySpec.parse(str(spec)) == spec
    loose = str(spec).replace(",", " , ").replace("=", " = ").replace(":", " : ", 1)
    if "(" not in loose:
        assert PolicySpec.parse(f"  {loose} ") == spec
    assert hash(PolicySpec.parse(str(spec))) == hash(spec)


@given(text=st.text(alphabet="ab:,=()/ 12.", max_size=40))
def test_any_text_is_read_or_refused_and_reading_is_stable(text: str) -> None:
    try:
        spec = PolicySpec.parse(text)
    except PolicyError as error:
        assert "\n" not in str(error)
        return
    again = PolicySpec.parse(str(spec))
    assert (again.name, again.value) == (spec.name, spec.value) or not spec.name


@pytest.mark.parametrize(
    ("text", "value", "options"),
    [
        (CASCADE, "SMALL(lead_k:2,cap=3)/LARGE(lead_k:2,cap=8)", {"keep": "votes"}),
        (MIX, "SMALL(k=3,weight=1)/LARGE(k=1,weight=2.4)", {}),
        ("fixed:1", 1, {}),
        ("fixed:8,weight=confidence", 8, {"weight": "confidence"}),
        ("lead_k:3,cap=16", 3, {"cap": 16}),
        ("curtailed", None, {}),
        ("fixed:value=8", 8, {}),
    ],
)
def test_values_and_options(text: str, value: object, options: dict[str, object]) -> None:
    spec = PolicySpec.parse(text)
    assert (spec.value, spec.options) == (value, options)


@pytest.mark.parametrize(
    ("text", "cap", "capped"),
    [
        ("lead_k:3", 8, "lead_k:3,cap=8"),
        ("lead_k:3,cap=16", 8, "lead_k:3,cap=8"),
        ("pilot_budget:0.91, cap =256", 24, "pilot_budget:0.91,cap=24"),
        ("curtailed", 8, "curtailed:cap=8"),
        ("fixed:16", 8, "fixed:8"),
        ("fixed:4", 8, "fixed:4"),
        ("fixed:16,cap=20", 8, "fixed:8"),
        (CASCADE, 8, CASCADE + ",cap=8"),
    ],
)
def test_with_cap(text: str, cap: int, capped: str) -> None:
    assert str(PolicySpec.parse(text).with_cap(cap)) == capped


def test_defaults_are_left_out_by_the_writer_only() -> None:
    assert format_spec("budget", 2.0, b=None) == "budget:2"
    assert format_spec("switch", 0.9, confidence="rm", cap=9) == "switch:0.9,confidence=rm,cap=9"
    assert str(PolicySpec.parse("mine:cap=32")) == "mine:cap=32"


@pytest.mark.parametrize(
    "cap", ["257", " 257", "1e9", "inf", "nan", "0", "-1", "2.5", "x", "9" * 5000, "1e400"]
)
@pytest.mark.parametrize(
    "head",
    ["lead_k:3", "pilot_budget:0.91", "adaptive_consistency:0.9", "esc:5", "e_value:0.1"],
)
def test_a_cap_out_of_range_is_refused_before_anything_is_built(head: str, cap: str) -> None:
    with pytest.raises(PolicyError, match=f"cap must be an integer from 1 to {MAX_CAP}") as caught:
        parse_policy(f"{head}, cap ={cap}")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("leadk:3", "did you mean lead_k?"),
        ("Lead-K:3", "did you mean lead_k?"),
        ("adaptive_consistancy", "did you mean adaptive_consistency?"),
        ("lead_k:3,capp=8", "did you mean cap?"),
        ("zzzz", "there are: adaptive_consistency"),
    ],
)
def test_a_misspelt_policy_or_option_is_told_the_nearest(text: str, meant: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(text)
    assert meant in str(caught.value)


@pytest.mark.parametrize("text", ["a:(b", "a:b)", "a:b)(", "a:x=(", "cascade:S(lead_k:2,cap=3/L(fixed:1)"])
def test_parentheses_must_match(text: str) -> None:
    with pytest.raises(PolicyError, match="parentheses do not match"):
        PolicySpec.parse(text)
