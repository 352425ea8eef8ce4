"""The calls to upstreams, byte by byte: how answers end, what breaks them, and which connections are kept."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import pytest

from client_rig import OK, Server, ask, client_of, run
from keff.protocol.client import LONGEST_LINE, BrokenError, Client, UnreachableError
from keff.protocol.values import BodyError


def test_calls_one_after_the_other_share_a_connection_and_say_what_they_should() -> None:
    async def work() -> None:
        server = Server(OK)
        async with client_of(server) as client:
            for _ in range(3):
                call, body = await ask(client)
                assert (call.status, call.length, call.headers["x-told"], body) == (200, 2, "a, b", b"ok")
        assert (server.opened, server.asked, server.bodies) == (1, 3, [b"{}"] * 3)
        lines = server.heads[0].decode().lower().split("\r\n")
        assert lines[0] == "post /v1/chat/completions http/1.1"
        assert {line.partition(":")[0] for line in lines[1:-2]} == {
            "host",
            "a",
            "user-agent",
            "content-length",
        }
        assert "a: b" in lines and "content-length: 2" in lines

    run(work)


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("answers", "close", "body", "opened"),
    [
        ((CHUNKED, b"3\r\nabc\r\n", b"2\r\nde\r\n0\r\n\r\n"), False, b"abcde", 1),
        ((CHUNKED + b"1\r\na\r\n0\r\nx-trailer: t\r\n\r\n",), False, b"a", 1),
        ((b"HTTP/1.1 200 OK\r\n\r\n", b"until ", b"the end"), True, b"until the end", 2),
        ((b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx",), False, b"x", 2),
        ((b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: close\r\n\r\nx",), False, b"x", 2),
        ((b"HTTP/1.1 100 Continue\r\n\r\n", OK), False, b"ok", 1),
        ((b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK,), False, b"ok", 1),
        ((b"HTTP/1.1 204 No Content\r\n\r\n",), False, b"", 1),
        ((OK[:20], OK[20:-1], OK[-1:]), False, b"ok", 1),
    ],
)
def test_answers_end_as_http_says(answers: tuple[bytes, ...], close: bool, body: bytes, opened: int) -> None:
    async def work() -> None:
        server = Server(*answers, close=close)
        async with client_of(server) as client:
            assert [(await ask(client))[1] for _ in range(2)] == [body, body]
        assert server.opened == opened

    run(work)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "before its answer was complete"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort", "before its answer was complete"),
        (CHUNKED + b"5\r\nab", "before its answer was complete"),
        (CHUNKED + b"no size\r\n", "answer is not HTTP"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "answer is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * (3 * LONGEST_LINE), "HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * LONGEST_LINE, "HTTP"),
    ],
)
def test_what_breaks_an_answer_is_said_and_its_connection_is_not_used_again(answer: bytes, why: str) -> None:
    async def work() -> None:
        server = Server(answer, close=True)
        async with client_of(server) as client:
            for _ in range(2):
                with pytest.raises(BrokenError, match=why):
                    await ask(client)
        assert server.opened == 2

    run(work)


@pytest.mark.parametrize(
    "more", [OK.replace(b"ok", b"no"), b"no", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nno"]
)
@pytest.mark.parametrize("late", [0.0, 0.02])
def test_bytes_after_an_answer_s_end_are_never_taken_for_the_next_answer(more: bytes, late: float) -> None:
    """They come with the answer, or while its connection is kept: either way it is not used again."""
    opened = list[int]()

    async def malicious(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(1)
        await reader.readuntil(b"{}")
        writer.write(OK if late else OK + more)
        await asyncio.sleep(late)
        writer.write(more)
        await reader.read()

    async def work() -> None:
        async with client_of(malicious) as client:
            for _ in range(3):
                try:
                    assert (await ask(client))[1] == b"ok"
                except BrokenError:
                    assert not late, "what came at once was no HTTP"
                await asyncio.sleep(2 * late)
        assert len(opened) == 3

    run(work)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("began", [b"", b"HTTP/1.1 200 OK\r\n"])
def test_a_call_is_made_again_once_where_a_kept_connection_broke_before_anything_came(
    method: str, began: bytes
) -> None:
    seen = list[bytes]()

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        # It closes as the next request comes, as servers do whose patience ends in that moment.
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(began)

    async def work() -> None:
        async with client_of(once) as client:
            await ask(client, b"", method)
            if method == "POST" and began:
                with pytest.raises(BrokenError):
                    await ask(client, b"", method)
            else:
                assert (await ask(client, b"", method))[1] == b"ok"
        assert len(seen) == 1

    run(work)


def test_a_call_whose_new_connection_broke_is_not_made_again() -> None:
    server = Server(b"", close=True)

    async def work() -> None:
        async with client_of(server) as client:
            with pytest.raises(BrokenError):
                await ask(client)

    run(work)
    assert server.asked == 1


def test_an_answer_to_head_has_no_body() -> None:
    async def work() -> None:
        async with client_of(Server(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n")) as client:
            call, body = await ask(client, b"", "HEAD")
            assert (call.status, call.length, body) == (200, 500, b"")

    run(work)


def test_nothing_listens() -> None:
    async def work() -> None:
        async with client_of(Server(OK)) as client:
            nowhere = Client("http://127.0.0.1:9/v1", 2, 2.0, 5.0)
            nowhere.start()
            for _ in range(3):
                with pytest.raises(UnreachableError):
                    await ask(nowhere)
            assert nowhere.running == 0
            assert (await ask(client))[1] == b"ok"
            await nowhere.close()

    run(work)


@pytest.mark.parametrize("value", ["a\r\nhost: evil", "a\nb", "a\rb", "a\0b"])
def test_no_header_smuggles_a_line(value: str) -> None:
    async def work() -> None:
        async with client_of(Server(OK)) as client:
            with pytest.raises(ValueError, match="header"):
                await client.request("GET", client.target("/"), {"a": value})
            assert client.running == 0

    run(work)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://h/v1", "http://h/v1/models?a=b%20c"),
        ("http://h:8000/", "http://h:8000/models?a=b%20c"),
        ("https://[::1]:8443/openai/v1", "https://[::1]:8443/openai/v1/models?a=b%20c"),
        ("http://h/v1?api-version=2", "http://h/v1/models?api-version=2&a=b%20c"),
    ],
)
def test_targets_stand_below_the_base_and_keep_its_query(url: str, target: str) -> None:
    assert Client(url, 1, 1.0, 1.0).target("/models", "a=b%20c") == target


def test_a_target_is_one_word_of_ascii() -> None:
    assert (
        Client("http://h/v1", 1, 1.0, 1.0).target("/models", "a=b c\xff") == "http://h/v1/models?a=b%20c%FF"
    )


def packed(body: bytes, encoding: str) -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize(
    ("body", "encoding", "plain"),
    [
        (gzip.compress(b"ok"), "gzip", b"ok"),
        (gzip.compress(b"o") + gzip.compress(b"k"), "GZIP", b"ok"),
        (zlib.compress(b"ok"), "deflate", b"ok"),
        (zlib.compress(b"ok")[2:-4], "deflate", b"ok"),
        (b"ok", "identity", b"ok"),
        (b"ok", "compress", None),
        (b"ok", "gzip, gzip", None),
        (b"no gzip at all", "gzip", None),
        (gzip.compress(bytes(2**26)), "gzip", None),
        (gzip.compress(gzip.compress(bytes(2**26))), "gzip, gzip", None),
    ],
    ids=map(str, range(10)),
)
def test_bodies_are_unpacked_within_bounds(body: bytes, encoding: str, plain: bytes | None) -> None:
    async def work() -> None:
        async with client_of(Server(packed(body, encoding))) as client:
            if plain is None:
                with pytest.raises(BodyError):
                    await ask(client)
            else:
                call, came = await ask(client)
                assert came == plain and "gzip" not in call.headers.get("content-encoding", "")

    run(work)
