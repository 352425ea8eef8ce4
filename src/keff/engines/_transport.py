"""The wire to an OpenAI-compatible server: requests as dictionaries, every failure as one clear line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import TypeVar

import httpx2

from keff.errors import EngineError
from keff.narrow import entries, fields
from keff.protocol.reply import Assembler, RepeatedError, choices_of, filtered_response
from keff.protocol.server import Mask, Refusal, pause, refusal_of
from keff.protocol.values import DONE, ENCODINGS, Body, BodyError, Events, data_of, decoded

T = TypeVar("T")

# Seconds for a connection, room for one lost packet. A dead host is noticed within half a minute.
#
# Two requests in turn, each with three retries and the pauses between them.
CONNECT = 2.5

# Listing models is a small request: a server that takes longer is not ready.
LIST_SECONDS = 30.0
MODELS, CHAT = "models", "chat/completions"
# Pauses double between tries, up to a minute: limits on rates are counted by the minute.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server is and how patient to be.

    ``timeout`` bounds one request from its start to its last byte.
    """

    url: str
    key: str
    key_name: str
    max_retries: int
    timeout: float


class UnsupportedError(Exception):
    """The server cannot do a request that a simpler one may pass.

    ``sure``: it said so (400 or 422); else its answer was odd, which may have been a passing fault.
    """

    def __init__(self, error: EngineError, *, sure: bool) -> None:
        super().__init__(str(error))
        self.error, self.sure = error, sure


class _RefusedError(Exception):
    """The server answered with an error status."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Transport:
    """One server and its pool of connections."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._mask = Mask([address.key])
        self._trusted = httpx2.create_ssl_context()
        # Taken apart once: it would be for every request.
        self._urls = {path: httpx2.URL(f"{address.url.rstrip('/')}/{path}") for path in (MODELS, CHAT)}
        self._clients: list[httpx2.AsyncClient] = []
        self._idle: list[httpx2.AsyncClient] = []

    def _client(self) -> httpx2.AsyncClient:
        """Return a client that carries no request.

        One for each request in flight: a shared one looks at all its connections, by a system call each,
        before and after every request, which takes a third of the processor time of a path.
        """
        if self._idle:
            return self._idle.pop()
        address = self._address
        client = httpx2.AsyncClient(
            headers={
                "Authorization": f"Bearer {address.key or 'none'}",
                "User-Agent": f"keff/{version('keff')}",
                "Accept-Encoding": ENCODINGS,
            },
            # The deadline of a whole request is ours: these would begin anew with every byte that comes.
            timeout=httpx2.Timeout(None, connect=min(CONNECT, address.timeout)),
            follow_redirects=True,
            verify=self._trusted,
        )
        self._clients.append(client)
        return client

    async def models(self) -> list[str]:
        """Return the names of the models that the server lists (none when it has no such list).

        Raises EngineError, not transient, when the server cannot be reached or refuses the key.
        """
        try:
            async with self._answer("GET", MODELS, None, LIST_SECONDS) as response:
                raw = await self._whole(response)
            listed = entries(fields(decoded(raw)).get("data"))
        except _RefusedError as error:
            # Servers without a list of models are many, and serve all the same.
            if error.refusal.status in (404, 405, 501):
                return []
            raise self.error(self._status_line(error.refusal), transient=False) from None
        except httpx2.TransportError as error:
            raise self.error(_broken(error), transient=False) from None
        except EngineError as error:
            raise self.error(str(error), transient=False) from None
        except ValueError:
            raise self.error("/models is not JSON: is this an OpenAI server?", transient=False) from None
        return [str(entry.get("id")) for entry in listed]

    async def chat(self, body: Mapping[str, object], read: Callable[[dict[str, object]], T]) -> T:
        """Send one chat request and return what ``read`` makes of the whole response, streamed or not.

        Raises EngineError, or UnsupportedError when the server says that the request itself is wrong.
        Whatever reading an answer raises is a transient EngineError: one odd answer must not end a run.
        """
        raw = json.dumps(body).encode()
        n = body.get("n", 1)
        paths = n if isinstance(n, int) else 1
        try:
            response = await self._patient(raw, body.get("stream"))
            choices_of(response)
            return read(response)
        except _RefusedError as error:
            refusal = error.refusal
            if refusal.filtered:
                return read(filtered_response(refusal.message, paths))
            failure = self._refused(refusal)
            raise (UnsupportedError(failure, sure=True) if failure.refused else failure) from None
        except RepeatedError as error:
            failure = self.error(str(error))
            raise (UnsupportedError(failure, sure=False) if paths > 1 else failure) from None
        except EngineError as error:
            raise self.error(str(error), error.transient, error.refused) from None
        except BodyError as error:
            raise self.error(f"the answer cannot be taken: {error}") from None
        except ValueError:
            raise self.error("the answer is not JSON, or was cut short") from None
        except Exception as error:
            raise self.error(f"the answer cannot be read ({type(error).__name__})") from error

    async def _patient(self, body: bytes, streamed: object) -> dict[str, object]:
        """Make one request, and again while the server is busy or does not answer at all."""
        tries = 0
        while True:
            tries += 1
            try:
                async with self._answer("POST", CHAT, body, self._address.timeout) as response:
                    if streamed and "event-stream" in response.headers.get("content-type", ""):
                        return await self._streamed(response)
                    return fields(decoded(await self._whole(response)))
            except _RefusedError as error:
                if not error.refusal.transient or tries > self._address.max_retries:
                    raise
                asked = error.refusal.wait
            except httpx2.TransportError as error:
                if tries > self._address.max_retries:
                    raise EngineError(_broken(error)) from None
                asked = None
            await asyncio.sleep(pause(tries, asked, first=FIRST_PAUSE, longest=LONGEST_PAUSE))

    @asynccontextmanager
    async def _answer(
        self, method: str, path: str, body: bytes | None, seconds: float
    ) -> AsyncGenerator[httpx2.Response]:
        """Give the response to one request, all within ``seconds``.

        Raises _RefusedError for an error status.
        """
        client = self._client()
        try:
            async with asyncio.timeout(seconds):
                headers = {"content-type": "application/json"} if body is not None else None
                async with client.stream(method, self._urls[path], content=body, headers=headers) as response:
                    # A redirect too: following it could carry the key to another host.
                    if response.status_code >= 300:
                        raw = await self._whole(response)
                        raise _RefusedError(
                            refusal_of(response.status_code, raw, response.headers, self._mask)
                        )
                    yield response
        except TimeoutError:
            raise EngineError(f"no answer within {seconds:g} s") from None
        finally:
            self._idle.append(client)

    @staticmethod
    async def _whole(response: httpx2.Response) -> bytes:
        body = Body(response.headers.get("content-encoding"))
        parts = [body.take(part) async for part in response.aiter_raw()]
        body.end()
        return b"".join(parts)

    @staticmethod
    async def _streamed(response: httpx2.Response) -> dict[str, object]:
        parts, events, body = Assembler(), Events(), Body(response.headers.get("content-encoding"))
        async for part in response.aiter_raw():
            for event in events.feed(body.take(part)):
                data = data_of(event)
                if data and data != DONE:
                    parts.take(fields(decoded(data)))
        return parts.response()

    def error(self, message: str, transient: bool = True, refused: bool = False) -> EngineError:
        """Return an EngineError of one line that names the address and never the key."""
        line = self._mask(f"{self._address.url}: {message}")
        return EngineError(line, transient=transient, refused=refused)

    def _refused(self, refusal: Refusal) -> EngineError:
        return self.error(
            self._status_line(refusal),
            refusal.transient,
            refused=not refusal.transient and not refusal.fatal,
        )

    def _status_line(self, refusal: Refusal) -> str:
        line = f"HTTP {refusal.status}: {refusal.message}"
        check = refusal.status in (401, 403)
        return f"{line}; check the key in ${self._address.key_name}" if check else line

    async def close(self) -> None:
        """Close the connections."""
        for client in self._clients:
            await client.aclose()


def _broken(error: httpx2.TransportError) -> str:
    if isinstance(error, httpx2.ConnectTimeout):
        return "cannot be reached (nothing there answers)"
    if isinstance(error, httpx2.ConnectError):
        return f"cannot be reached ({error})"
    return f"the connection broke ({type(error).__name__})"
