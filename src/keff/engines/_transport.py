"""The wire to an OpenAI-compatible server: requests as dictionaries, every failure as one clear line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import httpx2
from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError, AsyncOpenAI, AsyncStream

from keff.engines._response import Assembler, RepeatedError, choices_of, entries, fields
from keff.errors import EngineError


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is and how patient to be; the key is never shown."""

    url: str
    key: str
    key_name: str
    max_retries: int
    timeout: float


CONNECT = 2.5
"""Seconds for a connection, room for one lost packet. A dead host is noticed within half a minute.

That is two requests in turn, each with the client's three retries and the pauses between them.
"""


class UnsupportedError(Exception):
    """The server cannot do a request that a simpler one may pass.

    ``sure``: it said so (400 or 422); else its answer was odd, which may have been a passing fault.
    """

    def __init__(self, error: EngineError, *, sure: bool) -> None:
        super().__init__(str(error))
        self.error, self.sure = error, sure


class Transport:
    """One server and its pool of connections."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._client = AsyncOpenAI(
            base_url=address.url,
            api_key=address.key or "none",
            max_retries=address.max_retries,
            timeout=_patience(address.timeout),
            default_headers={"User-Agent": f"keff/{version('keff')}"},
        )

    async def models(self) -> list[str]:
        """Return the names of the models that the server lists (none when it has no such list).

        Raises EngineError, not transient, when the server cannot be reached or refuses the key.
        """
        client = self._client.with_options(max_retries=0, timeout=_patience(30))
        try:
            answer = await client.get("/models", cast_to=httpx2.Response)
            listed = entries(fields(json.loads(answer.content)).get("data"))
        except APIStatusError as error:
            if error.status_code in (404, 405, 501):
                return []
            raise self.error(self._status_error(error)[0], transient=False) from None
        except APIError as error:
            raise self.error(self._api_error(error), transient=False) from None
        except ValueError:
            raise self.error("/models is not JSON: is this an OpenAI server?", transient=False) from None
        return [str(one.get("id")) for one in listed]

    async def chat(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send one chat request and return the whole response, streamed or not.

        Raises EngineError, or UnsupportedError when the server says that the request itself is wrong.
        """
        try:
            response = await (self._streamed(body) if body.get("stream") else self._whole(body))
            choices_of(response)
            return response
        except APIStatusError as error:
            if stopped_by_filter(error):
                return filtered_response(error, body.get("n", 1))
            failure = self.error(*self._status_error(error))
            refused = error.status_code in (400, 422)
            raise (UnsupportedError(failure, sure=True) if refused else failure) from None
        except APIError as error:
            raise self.error(self._api_error(error)) from None
        except EngineError as error:
            failure = self.error(str(error), transient=error.transient)
            smaller = isinstance(error, RepeatedError) and body.get("n", 1) > 1
            raise (UnsupportedError(failure, sure=False) if smaller else failure) from None
        except httpx2.HTTPError as error:
            raise self.error(f"the connection broke ({type(error).__name__})") from None
        except ValueError:
            raise self.error("the answer is not JSON, or was cut short") from None

    async def _whole(self, body: Mapping[str, Any]) -> dict[str, Any]:
        answer = await self._client.post("/chat/completions", cast_to=httpx2.Response, body=dict(body))
        return fields(json.loads(answer.content))

    async def _streamed(self, body: Mapping[str, Any]) -> dict[str, Any]:
        parts = Assembler()
        stream = await self._client.post(
            "/chat/completions",
            cast_to=object,
            body=dict(body),
            stream=True,
            stream_cls=AsyncStream[object],
        )
        async with stream:
            async for chunk in stream:
                parts.take(fields(chunk))
        return parts.response()

    def error(self, message: str, transient: bool = True) -> EngineError:
        """Return an EngineError of one line that names the address and never the key."""
        line = " ".join(message.split())
        if self._address.key:
            line = line.replace(self._address.key, "***")
        return EngineError(f"{self._address.url}: {line}", transient=transient)

    def _status_error(self, error: APIStatusError) -> tuple[str, bool]:
        """Return what an HTTP error says, and whether it may pass."""
        code, detail = error.status_code, fields(error.body)
        said = str(detail.get("message") or error.message)[:300]
        if code in (401, 403):
            return f"HTTP {code}: {said}; check the key in ${self._address.key_name}", False
        spent = detail.get("code") == "insufficient_quota"
        return f"HTTP {code}: {said}", (code in (408, 409, 429) or code >= 500) and not spent

    def _api_error(self, error: APIError) -> str:
        if isinstance(error.__cause__, httpx2.ConnectTimeout):
            return "cannot be reached (nothing there answers)"
        if isinstance(error, APITimeoutError):
            return f"no answer within {self._address.timeout:g} s"
        if isinstance(error, APIConnectionError):
            return f"cannot be reached ({error.__cause__ or error})"
        return f"the server answered with an error: {error.message}"

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _patience(seconds: float) -> httpx2.Timeout:
    return httpx2.Timeout(seconds, connect=min(CONNECT, seconds))


def stopped_by_filter(error: APIStatusError) -> bool:
    """Return whether a content filter stopped a request."""
    return error.status_code == 400 and bool(re.search("content_filter|content_policy", str(error.body)))


def filtered_response(error: APIStatusError, n: int) -> dict[str, Any]:
    """Return the response that n paths stopped by a content filter stand for."""
    said = str(fields(error.body).get("message") or error.message)
    choice = {"message": {"content": "", "refusal": said}, "finish_reason": "content_filter"}
    return {"choices": [{"index": index, **choice} for index in range(n)], "usage": {"completion_tokens": 0}}
