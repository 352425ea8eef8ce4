"""The way to an upstream through a proxy: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, by CONNECT."""

from __future__ import annotations

import asyncio
import base64
import re
import socket
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from keff.errors import UsageError
from keff.protocol.address import is_loopback

# A proxy's answer to CONNECT is a few lines.
LARGEST_HEAD = 16 * 1024
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")


class ProxyError(ConnectionError):
    """The proxy cannot be reached, or makes no way to the upstream."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where a proxy is, and by which ``Proxy-Authorization`` it knows us."""

    host: str
    port: int
    authorization: str = field(default="", repr=False)

    async def opened(self, host: str, port: int) -> socket.socket:
        """Return a socket through which the upstream is reached; raises ProxyError."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            family, kind, protocol, _, address = found[0]
            way = socket.socket(family, kind, protocol)
            try:
                way.setblocking(False)
                await loop.sock_connect(way, address)
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


def proxy_for(scheme: str, host: str) -> Proxy | None:
    """Return the proxy that the environment names for a host; None for this machine and for NO_PROXY.

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
