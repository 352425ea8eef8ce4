"""The calls to upstreams, byte by byte: how answers end, what breaks them, and which connections are kept."""

from __future__ import annotations

import asyncio

import pytest

from client_rig import OK, Server, ask, client_of, counts, run
from keff.protocol.client import Client, UnreachableError
from keff.protocol.connection import LARGEST_HEAD, BrokenError


def test_calls_one_after_the_other_share_a_connection_and_say_what_they_should() -> None:
    async def work() -> None:
        server = Server(OK)
        async with client_of(server) as client:
            for _ in range(3):
                call, body = await ask(client)
                assert (call.status, call.length, call.headers["x-told"], body) == (200, 2, "a, b", b"ok")
        assert (server.opened, server.asked, server.bodies) == (1, 3, [b"{}"] * 3)
        lines = server.heads[0].decode().split("\r\n")
        assert lines[0] == "POST /v1/chat/completions HTTP/1.1"
        assert lines[1].startswith("host: 127.0.0.1:") and "a: b" in lines and "content-length: 2" in lines

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
        (b"", "before its answer was whole"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort", "before its answer was whole"),
        (CHUNKED + b"5\r\nab", "before its answer was whole"),
        (CHUNKED + b"no size\r\n", "not an answer in HTTP"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not an answer in HTTP"),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "HTTP"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * (3 * LARGEST_HEAD), "head of its answer|HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * LARGEST_HEAD, "head of its answer|HTTP"),
        (CHUNKED + b"0\r\n" + b"x: y\r\n" * LARGEST_HEAD, "HTTP"),
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


def test_a_second_answer_to_one_call_is_never_taken_for_the_next_one_s() -> None:
    async def work() -> None:
        server = Server(OK + OK.replace(b"ok", b"no"))
        async with client_of(server) as client:
            for _ in range(3):
                assert (await ask(client))[1] == b"ok"
        assert server.opened == 3

    run(work)


@pytest.mark.parametrize(("method", "works"), [("GET", True), ("POST", False)])
def test_only_what_may_be_asked_twice_is_asked_again_when_a_kept_connection_breaks(
    method: str, works: bool
) -> None:
    async def work() -> None:
        seen = list[int]()

        async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(OK)
            # It closes as the next request comes, as servers do whose patience ends in that moment.
            await reader.readuntil(b"\r\n\r\n")
            seen.append(1)

        async with client_of(once) as client:
            await ask(client, b"", method)
            if works:
                assert (await ask(client, b"", method))[1] == b"ok"
            else:
                with pytest.raises(BrokenError):
                    await ask(client, b"", method)
        assert len(seen) >= 1

    run(work)


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
            assert counts(nowhere) == (0, 0, 0)
            assert (await ask(client))[1] == b"ok"

    run(work)


@pytest.mark.parametrize("value", ["a\r\nhost: evil", "a\nb", "a\rb", "a\0b"])
def test_no_header_smuggles_a_line(value: str) -> None:
    async def work() -> None:
        async with client_of(Server(OK)) as client:
            with pytest.raises(ValueError, match="end of a line"):
                await client.request("GET", "/", {"a": value})
            assert counts(client) == (0, 0, 0)

    run(work)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://h/v1", "/v1/models?a=b%20c"),
        ("http://h:8000/", "/models?a=b%20c"),
        ("https://[::1]:8443/openai/v1", "/openai/v1/models?a=b%20c"),
    ],
)
def test_targets_stand_below_the_base(url: str, target: str) -> None:
    assert Client(url, 1, 1.0, 1.0).target("/models", "a=b%20c") == target


def test_a_target_is_one_word_of_ascii() -> None:
    assert Client("http://h/v1", 1, 1.0, 1.0).target("/models", "a=b c\xff") == "/v1/models?a=b%20c%FF"
