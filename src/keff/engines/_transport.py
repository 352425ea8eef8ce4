"""HTTP transport to an OpenAI-compatible server, with retries and one-line errors."""

from __future__ import annotations

import asyncio
import ssl
import sys
import time

from keff.errors import EngineError
from keff.narrow import Fields, entries
from keff.protocol.assembler import Assembler, StreamEnds
from keff.protocol.client import Call, Client, plain
from keff.protocol.reply import (
    CompletionIds,
    RepeatedError,
    choices_of,
    completions,
    filtered_response,
    reply_of,
)
from keff.protocol.server import Mask, Refusal, pause, refusal_of
from keff.protocol.values import ENCODINGS, LARGEST, BodyError, Object, sendable
from keff.records import Completion, frozen

# Seconds for a connection, room for one lost packet. A dead host is noticed within half a minute.
#
# Two requests in turn, each with three retries and the pauses between them.
CONNECT = 2.5

# Listing models is a small request: a server that takes longer is not ready.
LIST_SECONDS = 30.0
REPEATED = (
    "the server gave the completion {} again. A cache answers instead of the model, so one path would count "
    "as several: turn the cache off"
)
MODELS, CHAT = "/models", "/chat/completions"
# Pauses double between tries, up to a minute: limits on rates are counted by the minute.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0


@frozen
class ServerAddress:
    """A server's address, the environment variable of its key, and its timeouts.

    ``timeout`` bounds one request from its start to its last byte.
    """

    url: str
    key_name: str
    max_retries: int
    timeout: float


class UnsupportedError(Exception):
    """The server lacks a feature; a simpler request may pass.

    ``sure``: it said so (400 or 422); else its answer was odd, which may have been a passing fault.
    """

    def __init__(self, error: EngineError, *, sure: bool) -> None:
        super().__init__(str(error))
        self.error, self.sure = error, sure


class _RefusedError(Exception):
    """The server returned an error status."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Transport:
    """One server and its connection pool, bound to one event loop."""

    def __init__(self, address: ServerAddress, key: str) -> None:
        self._address = address
        self._mask = Mask([key])
        self._headers = {
            "authorization": f"Bearer {key or 'none'}",
            "accept-encoding": ENCODINGS,
            "content-type": "application/json",
        }
        self._client = Client(
            address.url, sys.maxsize, min(CONNECT, address.timeout), address.timeout, trusted=_ssl_context
        )
        self._client.start()
        self._ends, self._ids = StreamEnds(), CompletionIds()

    async def models(self) -> list[str]:
        """Return the model names the server lists; empty without a list.

        Raises EngineError, not transient, when the server cannot be reached or refuses the key.
        """
        try:
            async with asyncio.timeout(LIST_SECONDS):
                listed = entries((await self._answer("GET", MODELS)).get("data"))
        except _RefusedError as error:
            # Servers without a list of models are many, and serve all the same.
            if error.refusal.status in (404, 405, 501):
                return []
            wrong = self._status_line(error.refusal)
        except TimeoutError:
            wrong = f"no answer within {LIST_SECONDS:g} s"
        except OSError as error:
            wrong = plain(error)
        except EngineError as error:
            wrong = str(error)
        except ValueError:
            wrong = "/models is not JSON: is this an OpenAI server?"
        else:
            return [str(entry.get("id")) for entry in listed]
        raise self.error(wrong, transient=False)

    async def chat(self, body: Fields, n: int) -> list[Completion]:
        """Send one chat request for n paths; returns the completed paths, streamed or not.

        Raises EngineError, or UnsupportedError when the server says that the request itself is wrong.
        Whatever reading an answer raises is a transient EngineError: one odd answer must not end a run.
        """
        begun = time.perf_counter()

        def read(response: Object) -> list[Completion]:
            if self._ids.repeats(response, body.get("messages")):
                raise EngineError(REPEATED.format(response.get("id")))
            return completions(response, choices_of(response), time.perf_counter() - begun)

        try:
            return read(await self._patient(sendable(body), n))
        except _RefusedError as error:
            refusal = error.refusal
            if refusal.filtered:
                return read(filtered_response(refusal.message, n))
            failure = self._error_of(refusal)
            raise (UnsupportedError(failure, sure=True) if failure.refused else failure) from None
        except RepeatedError as error:
            failure = self.error(str(error))
            raise (UnsupportedError(failure, sure=False) if n > 1 else failure) from None
        except EngineError as error:
            raise self.error(str(error), error.transient, error.refused) from None
        except BodyError as error:
            raise self.error(f"keff cannot take the answer: {error}") from None
        except ValueError:
            raise self.error("the answer is not JSON, or was cut short") from None
        except Exception as error:
            raise self.error(f"the answer cannot be read ({type(error).__name__})") from error

    async def _patient(self, body: bytes, n: int) -> Object:
        """Send one request, retried while the server is busy or silent."""
        tries = 0
        while True:
            tries += 1
            try:
                return await self._answer("POST", CHAT, body, n)
            except _RefusedError as error:
                if not error.refusal.transient or tries > self._address.max_retries:
                    raise
                asked = error.refusal.wait
            except OSError as error:
                if tries > self._address.max_retries:
                    raise EngineError(plain(error)) from None
                asked = None
            await asyncio.sleep(pause(tries, asked, first=FIRST_PAUSE, longest=LONGEST_PAUSE))

    async def _answer(self, method: str, path: str, body: bytes = b"", n: int = 1) -> Object:
        """Return one request's response; raises _RefusedError for an error status."""
        try:
            call = await self._client.request(method, self._client.target(path), self._headers, body)
            try:
                # A redirect too: following it could carry the key to another host.
                if call.status >= 300:
                    raw = await call.read()
                    raise _RefusedError(refusal_of(call.status, raw, call.headers, self._mask))
                if await call.streams():
                    return await self._read_stream(call, n)
                return reply_of(await call.read())
            finally:
                call.close()
        except TimeoutError:
            raise EngineError(f"no answer within {self._address.timeout:g} s") from None

    async def _read_stream(self, call: Call, n: int) -> Object:
        parts = Assembler(n, self._ends)
        async for part in call.parts(LARGEST):
            parts.feed(part)
        return parts.response(call.headers)

    def error(self, message: str, transient: bool = True, refused: bool = False) -> EngineError:
        """Return a one-line EngineError with the address and without the key."""
        line = self._mask(f"{self._address.url}: {message}")
        return EngineError(line, transient=transient, refused=refused)

    def _error_of(self, refusal: Refusal) -> EngineError:
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
        await self._client.close()


def _ssl_context() -> ssl.SSLContext:
    """Return an SSL context that trusts the operating system's certificates."""
    from httpx2 import create_ssl_context  # .1 s, for addresses of https only

    return create_ssl_context()
