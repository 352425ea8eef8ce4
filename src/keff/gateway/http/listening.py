"""The sockets that are listened on."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Generator

from keff.errors import RunError

# As many as the usual net.core.somaxconn allows.
BACKLOG = 4096


@contextlib.contextmanager
def listeners(host: str, port: int, n: int = 1) -> Generator[list[socket.socket]]:
    """Give n sockets that listen on one address; the kernel deals connections out to them.

    Raises RunError when the address cannot be had. That another process of the same user listens there too
    would be allowed where sockets are shared, so it is looked for first.
    """
    with contextlib.ExitStack() as stack:
        if n > 1 and port:
            _listener(host, port, shared=False).close()
        first = stack.enter_context(contextlib.closing(_listener(host, port, shared=n > 1)))
        taken = first.getsockname()[1]
        rest = [_listener(host, taken, shared=True) for _ in range(n - 1)]
        for listener in rest:
            stack.enter_context(contextlib.closing(listener))
        yield [first, *rest]


def shown_url(listener: socket.socket) -> str:
    """Return the base URL that clients are told."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"


def _listener(host: str, port: int, *, shared: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where the protocol is named; with it on, every reply that is
    # written in two pieces waits 40 ms for the client's delayed acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host.strip("[]"), port))
        listener.listen(BACKLOG)
    except (OSError, AttributeError) as error:
        listener.close()
        said = error.strerror if isinstance(error, OSError) else "this system shares no port (--workers 1)"
        raise RunError(f"cannot listen on {host}:{port}: {said or error}") from None
    return listener
