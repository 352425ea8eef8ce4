"""HTTP client of one upstream: one aiohttp session, with what a gateway needs and a session lacks.

By hand are: unpacking, with a bound, and an error where a packed body is cut short; NO_PROXY by port, domain
and network; that a kept connection on which bytes came unasked is not used; one repeat of a POST whose kept
connection had gone before anything came. Cookies are not kept and redirects not followed.
"""

from __future__ import annotations

import io
import re
import select
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import version
from ipaddress import ip_address, ip_network
from urllib.parse import quote, urlsplit
from urllib.request import getproxies_environment

import aiohttp
from aiohttp.connector import Connection
from yarl import URL

from keff.errors import UsageError
from keff.protocol.server import is_loopback
from keff.protocol.values import FREE, LARGEST, RATIO, BodyError

# A connection that was not used for longer is not used again: the server may be about to close it.
IDLE_SECONDS = 30.0
# Bytes of a line of a head: some gateways tell policies of many kilobytes.
LONGEST_LINE = 64 * 1024
# A body beyond is written in parts.
ONE_WRITE = 2**18
AGENT = f"keff/{version('keff')}"

# The type of a stream of events, and how its bytes begin.
EVENTS, _EVENT = "text/event-stream", re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:data|event|id|retry)?:")

CUT = "it closed the connection before its answer was complete"

UNPACKED = frozenset({"gzip", "x-gzip", "deflate"})
# Plain bytes that a packed part gives at once.
ONE_PART = 2**18

# Whether the call of this task was given a connection that was used before.
_reused: ContextVar[bool] = ContextVar("reused")


class BrokenError(ConnectionError):
    """The connection ended within a response, or the bytes are not HTTP."""


class UnreachableError(ConnectionError):
    """No connection to the upstream could be made; the message says why."""


# What goes wrong on the wire: TimeoutError and those of TLS are OSErrors, BodyError is a ValueError.
BROKEN = (OSError, ValueError)


class Call:
    """One response as it arrives: status, headers (lower case, repeated ones joined by commas) and body."""

    def __init__(self, response: aiohttp.ClientResponse, ended: Callable[[], None]) -> None:
        self.status, self.headers = response.status, dict[str, str]()
        for name, value in response.headers.items():
            told = name.lower()
            self.headers[told] = f"{self.headers[told]}, {value}" if told in self.headers else value
        self._encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if self._encoding in UNPACKED:
            # What is read is plain, and of another length.
            self.headers = {
                name: value
                for name, value in self.headers.items()
                if name not in ("content-encoding", "content-length")
            }
        self._response, self._ended, self._first = response, ended, b""
        self._open, self._raw_bytes = True, 0
        self._plain = self._plain_parts() if self._encoding in UNPACKED else self._raw_parts()

    @property
    def kind(self) -> str:
        """The content type, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def length(self) -> int | None:
        """The Content-Length, if valid."""
        stated = self.headers.get("content-length", "")
        return int(stated) if stated.isascii() and stated.isdigit() else None

    async def streams(self) -> bool:
        """Return whether the body is a stream of events: by its type, else by its first bytes.

        Some servers name no type, or another one. What was looked at stays to be read.
        """
        if self.kind != EVENTS and not self._first:
            self._first = await anext(self._plain, b"")
        return self.kind == EVENTS or _EVENT.match(self._first) is not None

    async def parts(self, most: int | None = None) -> AsyncGenerator[bytes]:
        """Yield parts of the body as they arrive, unpacked; raises BodyError, or the call's error.

        BodyError is raised for an unknown encoding, for more than ``most`` bytes, and where a packed body
        unpacks to more than an answer can hold.
        """
        if self._encoding not in ("identity", "", *UNPACKED):
            raise BodyError("it is compressed in a way that keff did not ask for")
        packed, gave = self._encoding in UNPACKED, 0
        async for part in self._whole():
            gave += len(part)
            if packed and gave > min(LARGEST, max(FREE, RATIO * self._raw_bytes)):
                raise BodyError("it unpacks to more than an answer can hold")
            if most is not None and gave > most:
                raise BodyError(f"it is larger than {most} bytes")
            yield part
        self._finish()

    async def _whole(self) -> AsyncIterator[bytes]:
        first, self._first = self._first, b""
        if first:
            yield first
        async for part in self._plain:
            yield part

    async def _raw_parts(self) -> AsyncGenerator[bytes]:
        while True:
            with _as_os_errors():
                part = await self._response.content.readany()
            if not part:
                return
            self._raw_bytes += len(part)
            yield part

    async def _plain_parts(self) -> AsyncGenerator[bytes]:
        """Yield plain parts of a body of one or more members; raises BodyError, or BrokenError if cut."""
        unpack = None
        async for packed in self._raw_parts():
            while packed:
                if unpack is None or unpack.eof:
                    # Some servers send deflate without the head of zlib, whose first byte ends in 8.
                    bare = self._encoding == "deflate" and packed[0] & 15 != 8
                    unpack = zlib.decompressobj(-zlib.MAX_WBITS if bare else zlib.MAX_WBITS | 32)
                try:
                    part = unpack.decompress(packed, ONE_PART)
                except zlib.error:
                    raise BodyError("it is not compressed as its content-encoding says") from None
                packed = unpack.unused_data if unpack.eof else unpack.unconsumed_tail
                if part:
                    yield part
        if unpack is not None and not unpack.eof:
            raise BrokenError(CUT)

    async def read(self, most: int = LARGEST) -> bytes:
        """Return the whole body; raises BodyError above the limit, or the call's error."""
        return b"".join([part async for part in self.parts(most)])

    def close(self) -> None:
        """End the call; a connection with an unfinished response is closed."""
        self._response.close()
        self._finish()

    def _finish(self) -> None:
        if self._open:
            self._open = False
            self._ended()


class _Request(aiohttp.ClientRequest):
    """Request that is not sent on a kept connection with bytes that nobody asked for, or that has ended.

    They would be taken for its answer.
    """

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        if _reused.get(False) and conn.transport is not None and conn.protocol is not None:
            waiting = select.poll()
            waiting.register(conn.transport.get_extra_info("socket").fileno(), select.POLLIN)
            if conn.protocol.should_close or waiting.poll(0):
                raise aiohttp.ServerDisconnectedError
        return await super().send(conn)


async def _note_reused(*_: object) -> None:
    _reused.set(True)


class Client:
    """HTTP client of one server, bound to one event loop between ``start`` and ``close``.

    ``url`` may have a query, which every call gets. ``seconds`` bound a call from its start to its last byte.
    """

    def __init__(
        self,
        url: str,
        connections: int,
        connect_seconds: float,
        seconds: float,
        ca_file: str = "",
        trusted: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        parts = urlsplit(url)
        self._base, self._query = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}", parts.query
        self._secure, self._connections = parts.scheme == "https", connections
        port = parts.port or (443 if self._secure else 80)
        self._proxy = proxy_for(parts.scheme, parts.hostname or "", port)
        self._timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=connect_seconds)
        self._ca_file, self._trusted = ca_file, trusted
        self._session: aiohttp.ClientSession | None = None
        self.running = 0

    def start(self) -> None:
        """Bind to the running event loop, and load trusted certificates."""
        context: ssl.SSLContext | bool = True
        if self._secure:
            context = self._trusted()
            if self._ca_file:
                context.load_verify_locations(self._ca_file)
            context.set_alpn_protocols(["http/1.1"])
        traced = aiohttp.TraceConfig()
        traced.on_connection_reuseconn.append(_note_reused)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=self._connections, ssl=context, keepalive_timeout=IDLE_SECONDS
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"user-agent": AGENT},
            skip_auto_headers=("accept", "accept-encoding", "content-type"),
            timeout=self._timeout,
            request_class=_Request,
            trace_configs=[traced],
            max_line_size=LONGEST_LINE,
            max_field_size=LONGEST_LINE,
            auto_decompress=False,
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def target(self, path: str, query: str = "") -> str:
        """Return the address of a call: a path below the base, and a quoted query."""
        queries = "&".join(filter(None, (self._query, query)))
        target = f"{self._base}{path}{'?' + queries if queries else ''}"
        plain = target.isascii() and target.isprintable() and " " not in target
        return target if plain else quote(target.encode("latin-1", "replace"), safe=PRINTABLE)

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> Call:
        """Send a request, and return the call once its response head has arrived.

        Close it, or read it to its end. Raises OSError (TimeoutError, ssl.SSLError, UnreachableError,
        BrokenError), and ValueError for a header that cannot be sent.
        """
        self.running += 1
        try:
            with _as_os_errors():
                try:
                    response = await self._request(method, target, headers, body)
                except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                    # A message is what came of an answer. What is not reused was not stale.
                    began = isinstance(error, aiohttp.ServerDisconnectedError) and not isinstance(
                        error.message, str
                    )
                    if began or isinstance(error, aiohttp.ClientConnectorError) or not _reused.get(False):
                        raise
                    response = await self._request(method, target, headers, body)
        except BaseException:
            self.running -= 1
            raise
        return Call(response, self._end)

    async def _request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> aiohttp.ClientResponse:
        assert self._session is not None, "start() comes first"
        _reused.set(False)
        return await self._session.request(
            method,
            URL(target, encoded=True),
            headers=headers,
            data=(body if len(body) <= ONE_WRITE else io.BytesIO(body)) or None,
            proxy=self._proxy,
            allow_redirects=False,
        )

    def _end(self) -> None:
        self.running -= 1


PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))


# What aiohttp raises, the more particular first, and what it says here.
_FAILURES: tuple[tuple[type[Exception], type[Exception], str], ...] = (
    (aiohttp.ConnectionTimeoutError, UnreachableError, "it cannot be reached (nothing there answers)"),
    (TimeoutError, TimeoutError, ""),
    (aiohttp.ClientConnectorCertificateError, ssl.SSLCertVerificationError, ""),
    (aiohttp.ClientSSLError, ssl.SSLError, ""),
    (aiohttp.ClientProxyConnectionError, UnreachableError, "its proxy cannot be reached"),
    (aiohttp.ClientConnectorError, UnreachableError, "it cannot be reached (is the server running?)"),
    (aiohttp.ClientPayloadError, BrokenError, CUT),
    (aiohttp.ServerDisconnectedError, BrokenError, CUT),
    (aiohttp.ClientResponseError, BrokenError, "its answer is not HTTP/1.1"),
)


@contextmanager
def _as_os_errors() -> Generator[None]:
    """Raise what aiohttp raises as OSError, in the words of this module."""
    try:
        yield
    except aiohttp.ClientHttpProxyError as error:
        raise UnreachableError(f"its proxy refused to connect ({error.status})") from None
    except (aiohttp.ClientError, TimeoutError) as error:
        for kind, ours, why in _FAILURES:
            if isinstance(error, kind):
                raise ours(why) from None
        raise BrokenError(type(error).__name__) from None


def proxy_for(scheme: str, host: str, port: int) -> str | None:
    """Return the proxy for a server from the environment; None for localhost and NO_PROXY.

    Raises UsageError for one that is no http address.
    """
    named = getproxies_environment()
    url = named.get(scheme) or named.get("all")
    if not url or is_loopback(host) or is_exempt(host, port, named.get("no", "")):
        return None
    url = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(url)
        usable = parts.scheme == "http" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(f"{scheme.upper()}_PROXY must be an address such as http://proxy:3128")
    return url


_WITH_PORT = re.compile(r"(\[[^]]*\]|[^:]*):(\d+)")


def is_exempt(host: str, port: int, exempt: str) -> bool:
    """Return whether NO_PROXY names a server.

    Its entries are ``*``, names, domains, addresses and networks, each with or without a port.
    """
    for entry in re.split(r"[\s,]+", exempt.lower()):
        with_port = _WITH_PORT.fullmatch(entry)
        name = with_port[1] if with_port else entry
        if not name or (with_port and int(with_port[2]) != port):
            continue
        name = name.strip("[]")
        try:
            if ip_address(host) in ip_network(name, strict=False):
                return True
        except ValueError:
            domain = name.removeprefix("*").removeprefix(".")
            if name == "*" or host.lower() == domain or host.lower().endswith(f".{domain}"):
                return True
    return False


def plain(error: Exception) -> str:
    """Return a connection error in a few words."""
    if isinstance(error, BodyError):
        return f"keff cannot take its answer: {error}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return "its certificate cannot be trusted"
    if isinstance(error, ssl.SSLError):
        return "it does not speak TLS as it should"
    if isinstance(error, UnreachableError):
        return str(error)
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return f"the connection broke ({error if isinstance(error, BrokenError) else type(error).__name__})"
