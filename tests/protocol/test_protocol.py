"""The parts of the protocol that engine and gateway share.

Keys, waiting, sharing, packing, errors, events.
"""

from __future__ import annotations

import json
import time
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn import ANY_FLOAT, jsons
from keff.errors import UsageError
from keff.protocol.server import (
    LONGEST,
    LONGEST_ASKED,
    ODD,
    UNKNOWN,
    Mask,
    Sharing,
    asked_wait,
    base_url,
    checked_key,
    pause,
    refusal_of,
)
from keff.protocol.values import (
    LONGEST_EVENT,
    Events,
    count,
    data_of,
    decoded,
    encoded,
    sendable,
    storable,
    words,
)

KEY = "sk-very-secret-0123456789/+="
NO_MASK = Mask([])


def test_addresses_are_completed() -> None:
    assert base_url("localhost:8000", "--upstream", "--key") == "http://localhost:8000/v1"
    assert base_url("https://host/api/v1/", "--upstream", "--key") == "https://host/api/v1"


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://[::1", "http://x:99999/v1", "http://a:b@c/v1"])
def test_addresses_that_cannot_be_are_refused_without_their_key(url: str) -> None:
    with pytest.raises(UsageError, match="--upstream") as caught:
        base_url(url, "--upstream", "--key")
    assert "a:b" not in str(caught.value)


def test_keys_lose_the_whitespace_around_them_and_may_hold_none() -> None:
    assert checked_key(f" {KEY}\r\n", "K") == KEY
    for wrong in (f"{KEY}\n{KEY}", f"{KEY}\x00", f"{KEY}\u00e9", f"a {KEY}"):
        with pytest.raises(UsageError, match=r"\$K") as caught:
            checked_key(wrong, "K")
        assert "secret" not in str(caught.value)


@given(
    before=st.text(max_size=30),
    after=st.text(max_size=30),
    cut=st.integers(8, len(KEY)),
    most=st.integers(0, 60),
)
def test_no_text_shows_a_key_nor_a_long_beginning_of_one(
    before: str, after: str, cut: int, most: int
) -> None:
    """However the server or we cut it."""
    shown = Mask([KEY])(f"{before}{KEY[:cut]}{after}", most)
    assert KEY[:9] not in shown
    assert len(shown) <= most
    assert "\n" not in shown


def test_a_key_is_hidden_in_its_quoted_form_too() -> None:
    assert "0123456789" not in Mask([KEY])("see /x?key=sk-very-secret-0123456789%2F%2B%3D")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({"retry-after": formatdate(1010, usegmt=True)}, 10.0),
        ({"retry-after": "Thursday, 01-Jan-70 00:16:50 GMT"}, 10.0),
        ({"retry-after": "Thu Jan  1 00:16:50 1970"}, 10.0),
        ({"retry-after": formatdate(900, usegmt=True)}, 0.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Mon, 99 Foo 20000 99:99:99 GMT"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_what_a_server_asks_to_wait(
    headers: dict[str, str], seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 1000.0)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert asked_wait(headers) == seconds
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


def test_pauses_grow_are_bounded_and_differ() -> None:
    for tries, whole in ((1, 0.5), (2, 1.0), (3, 2.0), (9, 8.0), (10**6, 8.0)):
        drawn = [pause(tries, None, first=0.5, longest=8.0) for _ in range(200)]
        assert whole / 2 <= min(drawn) < max(drawn) <= whole
        assert len(set(drawn)) > 100
    asked = [pause(5, 3.0, first=0.5, longest=8.0) for _ in range(200)]
    assert 3.0 <= min(asked) < max(asked) <= 3.3
    assert pause(1, 1e9, first=0.5, longest=8.0) == LONGEST_ASKED
    assert pause(1, 0.0, first=0.5, longest=8.0) > 0.2, "0 seconds is no reason to ask without a pause"


def test_how_many_paths_a_request_may_ask_for_is_learnt() -> None:
    sharing = Sharing(8)
    for most in (4, 2, 1, 1):
        sharing.refused(sharing.most)
        assert sharing.most == most
    sharing = Sharing(8)
    for _ in range(ODD - 1):
        sharing.came(8, 3)
    sharing.came(1, 1)
    assert sharing.most == 8
    sharing.came(8, 8)
    for _ in range(ODD - 1):
        sharing.came(8, 0)
    assert sharing.most == 8, "a good answer in between starts the count anew"
    sharing.came(8, 0)
    assert sharing.most == 1


JSON = jsons(ANY_FLOAT, ["error", "message", "code", "type", "param", "detail"])


@given(JSON | st.binary(max_size=50), st.integers(100, 999))
def test_every_error_body_is_read_as_one_line_that_can_be_stored(body: Any, status: int) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    refusal = refusal_of(status, raw, {}, NO_MASK)
    for text in (refusal.message, refusal.code, refusal.kind, refusal.param):
        assert text is None or ("\n" not in text and len(text.encode()) <= 4 * LONGEST)
    assert refusal.message


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        (
            {"error": {"message": "too long", "code": "context_length_exceeded"}},
            "too long",
            "context_length_exceeded",
        ),
        ({"error": "no"}, "no", None),
        ({"detail": "not found"}, "not found", None),
        ({"detail": [{"loc": ["body"], "msg": "bad"}]}, '[{"loc":["body"],"msg":"bad"}]', None),
        ({"object": "error", "message": "bad n", "code": 400}, "bad n", "400"),
        ([{"error": {"message": "Google says no", "code": 400}}], "Google says no", "400"),
        ({}, UNKNOWN, None),
    ],
)
def test_errors_in_the_forms_that_servers_use(body: Any, message: str, code: str | None) -> None:
    refusal = refusal_of(400, json.dumps(body).encode(), {}, NO_MASK)
    assert (refusal.message, refusal.code) == (message, code)


def test_pages_for_people_are_left_out_and_plain_text_is_not() -> None:
    assert refusal_of(502, b"<html><h1>Bad Gateway", {}, NO_MASK).message == UNKNOWN
    assert refusal_of(502, b"upstream is asleep\n", {}, NO_MASK).message == "upstream is asleep"


@given(
    st.lists(st.sampled_from([b"data: {}", b": hi", b"data: a\ndata: b", b"event: x\ndata: 1"]), max_size=6),
    st.data(),
)
def test_events_are_cut_alike_however_they_arrive(parts: list[bytes], data: Any) -> None:
    raw = b"".join(part + data.draw(st.sampled_from([b"\n\n", b"\r\n\r\n"])) for part in parts) + b"data: un"
    step = data.draw(st.integers(1, 20))
    events = Events()
    whole = [event for start in range(0, len(raw), step) for event in events.feed(raw[start : start + step])]
    assert b"".join(whole) + events.rest == raw
    assert [event.strip() for event in whole] == parts
    assert data_of(b"data: a\ndata:b\n\n") == b"a\nb"


@given(jsons(ANY_FLOAT))
def test_what_is_sent_on_is_json_and_what_is_stored_is_utf_8(value: Any) -> None:
    json.loads(sendable(value), parse_constant=lambda name: pytest.fail(name))
    (words(value) or "").encode()


def test_numbers_and_depths_that_json_does_not_have() -> None:
    assert decoded(b'{"a": NaN, "b": [-Infinity]}') == {"a": None, "b": [None]}
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for read in (lambda: decoded(b"[" * 100_000), lambda: encoded(deep), lambda: encoded(float("inf"))):
        with pytest.raises(ValueError):
            read()
    assert json.loads(sendable({"a": 10**5000, "b": 1e999})) == {"a": None, "b": None}
    assert storable("a\ud83db") == "a\ufffd\ufffd\ufffdb"
    assert [count(value) for value in (3, 3.0, 3.5, -1, True, "3", None, 1e30, float("nan"))] == [3, 3] + [
        None
    ] * 7


@pytest.mark.parametrize("key", ["t", "length", "exceede", "context_length"])
def test_a_short_key_corrupts_no_word(key: str) -> None:
    said = "maximum context_length_exceeded: t exceeded"
    assert Mask([key])(said) == said


def test_a_key_of_some_length_is_hidden_as_a_word() -> None:
    assert (
        Mask(["hunter2-now"])("bad key 'hunter2-now', not hunter2-nowhere")
        == "bad key '***', not hunter2-nowhere"
    )
    assert Mask(["a" * 20])("x" + "a" * 20) == "x***"


@pytest.mark.parametrize("gap", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n", b"\r\n\n"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
def test_events_come_whole_however_they_are_cut(gap: bytes, size: int) -> None:
    whole = [b"data: %d" % number + gap for number in range(9)]
    raw, events = b"".join(whole) + b"data: open", Events()
    came = [event for start in range(0, len(raw), size) for event in events.feed(raw[start : start + size])]
    assert came == whole
    assert events.rest == b"data: open"


def test_a_stream_without_an_empty_line_takes_bounded_memory() -> None:
    events, given = Events(), 0
    for _ in range(200):
        given += sum(map(len, events.feed(b"x" * 40_960)))
        assert len(events.rest) <= LONGEST_EVENT
    assert given + len(events.rest) == 200 * 40_960
