"""HTTP client for one upstream: connection pool, proxies, errors."""

from __future__ import annotations

import asyncio
import base64
import re
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import field
from functools import partial
from importlib.metadata import version
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from aiohappyeyeballs import start_connection  # pyright: ignore[reportUnknownVariableType]

from keff.errors import UsageError
from keff.protocol.connection import BrokenError, Call, Connection
from keff.protocol.server import is_loopback
from keff.protocol.values import Body, BodyError
from keff.records import frozen

# After so many seconds without an answer the next address of a name is tried too.
STAGGER = 0.25

# A proxy's answer to CONNECT is a few lines.
LARGEST_HEAD = 16 * 1024
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")


class ProxyError(ConnectionError):
    """The proxy is unreachable, or refuses to connect to the upstream."""


@frozen
class Proxy:
    """Address and ``Proxy-Authorization`` of a proxy."""

    host: str
    port: int
    authorization: str = field(default="", repr=False)

    async def opened(self, host: str, port: int) -> socket.socket:
        """Return a socket to the upstream through the proxy; raises ProxyError."""
        try:
            way = await reached(self.host, self.port)
            try:
                await self._ask(way, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
            except BaseException:
                way.close()
                raise
        except ProxyError:
            raise
        except OSError as error:
            raise ProxyError(f"its proxy cannot be reached ({type(error).__name__})") from None
        return way

    async def _ask(self, way: socket.socket, target: str) -> None:
        loop, shown = asyncio.get_running_loop(), self.authorization
        known = f"Proxy-Authorization: Basic {shown}\r\n" if shown else ""
        await loop.sock_sendall(
            way, f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{known}\r\n".encode("latin-1")
        )
        head = b""
        # Byte by byte would be exact; but nobody speaks before the upstream is asked something.
        while b"\r\n\r\n" not in head and len(head) < LARGEST_HEAD:
            part = await loop.sock_recv(way, 4096)
            if not part:
                raise ProxyError("its proxy closed the connection")
            head += part
        status = _STATUS.match(head)
        if status is None or not status[1].startswith(b"2"):
            raise ProxyError(f"its proxy refused the way ({status[1].decode() if status else 'no HTTP'})")


async def reached(host: str, port: int) -> socket.socket:
    """Return a socket connected to the first of a host's addresses that answers; raises OSError."""
    # Cancelled just as one address answers, create_connection would leave that socket open (CPython 3.11).
    kind = socket.SOCK_STREAM
    try:  # an address needs no thread that looks it up
        found = socket.getaddrinfo(host, port, type=kind, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=kind)
    return await start_connection(found, happy_eyeballs_delay=STAGGER)


def proxy_for(scheme: str, host: str) -> Proxy | None:
    """Return the proxy for a host from the environment; None for localhost and NO_PROXY.

    Raises UsageError for one that is no http address.
    """
    named = getproxies_environment()
    url = named.get(scheme) or named.get("all")
    if not url or is_loopback(host) or proxy_bypass(host):
        return None
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        at, port = parts.hostname, parts.port or 80
    except ValueError:
        at, port, parts = None, 0, urlsplit("")
    if parts.scheme != "http" or not at:
        raise UsageError(f"{scheme.upper()}_PROXY must be an address such as http://proxy:3128")
    known = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
    return Proxy(at, port, base64.b64encode(known.encode()).decode())


# A connection that was not used for longer is not used again: the server may be about to close it.
IDLE_SECONDS = 30.0

# Whole answers of some ten thousand tokens in one read.
BUFFER = 128 * 1024

BODIED = frozenset({"POST", "PUT", "PATCH"})
IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
AGENT = f"user-agent: keff/{version('keff')}"


class UnreachableError(ConnectionError):
    """No connection to the upstream could be made; the message says why."""


class Client:
    """HTTP client of one server, bound to one event loop between ``start`` and ``close``.

    ``seconds`` bound a call from its start to its last byte: one timer for all of them.
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
        self._secure, self._host = parts.scheme == "https", parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._proxy = proxy_for(parts.scheme, self._host)
        self._base, self._ca_file, self._trusted = parts.path.rstrip("/"), ca_file, trusted
        self._named = f"host: {_ascii(parts.netloc.rpartition('@')[2])}"
        self._connect_seconds, self._seconds = connect_seconds, seconds
        # One for each connection that is in use, or is being opened.
        self._places = asyncio.Semaphore(connections)
        # asyncio would make one of this size for every read, and give most of it back.
        self._buffer = memoryview(bytearray(BUFFER))
        self._all: set[Connection] = set()
        self._idle: dict[Connection, float] = {}
        self._running: dict[Call, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: ssl.SSLContext | None = None
        self._headers: Mapping[str, str] | None = None
        self._asked, self._written = ("", ""), b""
        self.closed = False

    def start(self) -> None:
        """Bind to the running event loop, and load trusted certificates."""
        self._loop = asyncio.get_running_loop()
        if self._secure:
            self._context = self._trusted()
            if self._ca_file:
                self._context.load_verify_locations(self._ca_file)
            self._context.set_alpn_protocols(["http/1.1"])

    async def close(self) -> None:
        """Close all connections."""
        self.closed = True
        for connection in tuple(self._all):
            connection.abort()
        for timer in (self._timer, self._sweep):
            if timer is not None:
                timer.cancel()

    @property
    def running(self) -> int:
        """The number of calls running or waiting for a connection."""
        return len(self._running)

    def target(self, path: str, query: str = "") -> str:
        """Return a call's request target: a path below the base address, and a quoted query."""
        target = f"{self._base}{path}{'?' + query if query else ''}"
        plain = target.isascii() and target.isprintable() and " " not in target
        return target if plain else quote(target.encode("latin-1", "replace"), safe=PRINTABLE)

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> Call:
        """Send a request, and return the call once its response head has arrived.

        Close it, or read it to its end. Raises OSError (TimeoutError, ssl.SSLError, UnreachableError,
        BrokenError), and ValueError for a header that cannot be sent.
        """
        data = self._head(method, target, headers, len(body)) + body
        try:
            return await self._made(method, data)
        except ConnectionError as error:
            if method not in IDEMPOTENT or isinstance(error, UnreachableError):
                raise
        # The server may have closed a kept connection in the same moment: what may be asked twice is.
        return await self._made(method, data)

    async def _made(self, method: str, data: bytes) -> Call:
        assert self._loop is not None, "start() comes first"
        call, until = Call(self._loop, method, self._forget), self._loop.time() + self._seconds
        self._running[call] = until
        if self._timer is None:
            self._timer = self._loop.call_at(until, self._late)
        try:
            connection = await self._taken(self._loop, until)
            connection.send(call, data)
            await call.head()
        except BaseException:
            call.close()
            raise
        return call

    def free(self, connection: Connection) -> None:
        """Return a connection to the pool."""
        self._idle[connection] = time.monotonic()
        self._places.release()
        if self._sweep is None and self._loop is not None:
            self._sweep = self._loop.call_later(IDLE_SECONDS, self._give_back)

    def _give_back(self) -> None:
        """Close connections idle for too long."""
        self._sweep, now = None, time.monotonic()
        for connection, since in tuple(self._idle.items()):
            if (left := since + IDLE_SECONDS - now) > 0:
                assert self._loop is not None
                self._sweep = self._loop.call_later(left, self._give_back)
                return
            connection.abort()

    def lost(self, connection: Connection) -> None:
        """Remove a closed connection from the pool, and release its slot if in use."""
        if self._idle.pop(connection, None) is None and connection in self._all:
            self._places.release()
        self._all.discard(connection)

    def _forget(self, call: Call) -> None:
        self._running.pop(call, None)

    def _head(self, method: str, target: str, headers: Mapping[str, str], size: int) -> bytes:
        # The paths of a request have one object of headers: it is written once.
        if headers is not self._headers or (method, target) != self._asked:
            lines = [f"{method} {target} HTTP/1.1", self._named]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            if "user-agent" not in headers:
                lines.append(AGENT)
            text = "\r\n".join(lines)
            if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1 or "\0" in text:
                raise ValueError("a header holds the end of a line")
            self._written = f"{text}\r\n".encode("latin-1")
            self._headers, self._asked = headers, (method, target)
        length = b"content-length: %d\r\n" % size if size or method in BODIED else b""
        return self._written + length + b"\r\n"

    async def _taken(self, loop: asyncio.AbstractEventLoop, until: float) -> Connection:
        """Return an idle connection, else a new one."""
        if self._places.locked():
            async with asyncio.timeout_at(until):
                await self._places.acquire()
        else:
            # A timeout of its own would take longer than all of this.
            await self._places.acquire()
        now = time.monotonic()
        for connection, since in reversed(self._idle.items()):
            if connection.usable and now - since <= IDLE_SECONDS:
                del self._idle[connection]
                return connection
        try:
            async with asyncio.timeout_at(until):
                return await self._connected(loop)
        except BaseException:
            self._places.release()
            raise

    async def _connected(self, loop: asyncio.AbstractEventLoop) -> Connection:
        """Return a new connection."""
        try:
            async with asyncio.timeout(self._connect_seconds):
                connection = await self._made_to(loop)
        except TimeoutError:
            raise UnreachableError("it cannot be reached (nothing there answers)") from None
        except ssl.SSLError:
            raise
        except OSError as error:
            raise UnreachableError(str(error) if isinstance(error, ProxyError) else "") from None
        if not connection.usable:
            raise BrokenError("it closed at once")
        self._all.add(connection)
        return connection

    async def _made_to(self, loop: asyncio.AbstractEventLoop) -> Connection:
        way = await (self._proxy.opened if self._proxy else reached)(self._host, self._port)
        # From here on asyncio closes the socket, whatever happens.
        _, connection = await loop.create_connection(
            partial(Connection, self.free, self.lost, self._buffer),
            sock=way,
            ssl=self._context,
            server_hostname=self._host if self._secure else None,
        )
        return connection

    def _late(self) -> None:
        """Fail the calls past their deadline."""
        assert self._loop is not None, "a timer runs on it"
        self._timer, now = None, self._loop.time()
        for call, until in tuple(self._running.items()):
            if until > now:
                self._timer = self._loop.call_at(until, self._late)
                return
            call.fail(TimeoutError())


def _ascii(host: str) -> str:
    """Return a host in ASCII, for the Host header."""
    return host if host.isascii() else host.encode("idna").decode()


# What goes wrong on the wire: TimeoutError and those of TLS are OSErrors, BodyError is a ValueError.
BROKEN = (OSError, ValueError)


async def limited(call: Call) -> bytes:
    """Return a response's decompressed body; raises BodyError above the size limit."""
    if "content-encoding" not in call.headers:
        return await call.read()
    return b"".join([part async for part in unpacked(call)])


async def unpacked(call: Call) -> AsyncGenerator[bytes]:
    """Yield the parts of a response's body, decompressed whether or not that was asked for.

    Raises BodyError for what cannot be, and above the size limit.
    """
    body = Body(call.headers.get("content-encoding"))
    async for part in call.parts():
        yield body.take(part)
    body.end()


def plain(error: Exception) -> str:
    """Return a connection error in a few words."""
    if isinstance(error, BodyError):
        return f"its answer cannot be taken: {error}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return "its certificate cannot be trusted"
    if isinstance(error, ssl.SSLError):
        return "it does not speak TLS as it should"
    if isinstance(error, UnreachableError):
        return str(error) or "it cannot be reached"
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return f"the connection broke ({error if isinstance(error, BrokenError) else type(error).__name__})"
