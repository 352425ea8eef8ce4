"""The gateway's own HTTP client: waiting, giving up, and what bounds it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import warnings

import pytest

from client_rig import OK, Server, ask, client_of, run
from keff.protocol.values import BodyError


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        await reader.read()


def test_no_more_connections_than_allowed_and_who_waits_first_is_first() -> None:
    async def work() -> None:
        server, order = Server(OK), list[int]()
        async with client_of(server, connections=2) as client:

            async def numbered(number: int) -> None:
                await ask(client)
                order.append(number)

            await asyncio.gather(*map(numbered, range(10)))
        assert (server.opened, server.asked) == (2, 10)
        # Two at a time, and of those either may be answered first.
        assert [number // 2 for number in order] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]

    run(work)


def test_calls_that_are_given_up_free_their_place() -> None:
    async def work() -> None:
        async with client_of(silent, connections=2) as client:
            for _ in range(3):
                calls = [asyncio.create_task(ask(client)) for _ in range(6)]
                await asyncio.sleep(0.05)
                for call in calls:
                    call.cancel()
                await asyncio.wait(calls)
                await asyncio.sleep(0.02)
            assert client.running == 0

    run(work)


def test_a_call_given_up_at_any_step_of_its_connection_leaves_no_socket_open() -> None:
    async def work() -> None:
        async with client_of(silent) as client:
            for turns in range(20):
                call = asyncio.create_task(ask(client))
                for _ in range(turns):
                    await asyncio.sleep(0)
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call
                gc.collect()
            await asyncio.sleep(0.02)
            assert client.running == 0

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        run(work)
    assert not caught


def test_the_time_of_a_call_is_bounded_while_it_waits_for_anything() -> None:
    async def work() -> None:
        async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nha")
            await asyncio.sleep(5)

        async with client_of(half, connections=1, seconds=0.2) as client:
            begun = asyncio.get_running_loop().time()
            results = await asyncio.gather(ask(client), ask(client), return_exceptions=True)
            assert all(isinstance(result, TimeoutError) for result in results)
            assert 0.15 < asyncio.get_running_loop().time() - begun < 2
            await asyncio.sleep(0.05)
            assert client.running == 0

    run(work)


def test_a_body_is_read_no_faster_than_it_is_taken_and_never_beyond_its_bound() -> None:
    async def work() -> None:
        sent, size = 0, 64 * 2**20

        async def large(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            await reader.readuntil(b"\r\n\r\n")
            sent, told = 0, b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
            writer.write(told % size)
            with contextlib.suppress(OSError):
                while sent < size:
                    writer.write(b"x" * 2**18)
                    await writer.drain()
                    sent += 2**18

        async with client_of(large) as client:
            call = await client.request("GET", client.target("/"), {})
            await asyncio.sleep(0.3)
            # What the two ends and the systems between them hold: far from everything.
            assert sent < size / 4
            came = [len(part) async for part in call.parts()]
            assert sum(came) == size
            call = await client.request("GET", client.target("/"), {})
            with pytest.raises(BodyError, match="larger than 1000000 bytes"):
                await call.read(1_000_000)
            call.close()

    run(work)
