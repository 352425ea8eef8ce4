"""HTTP towards clients: sockets, heads, request checks, replies and streams.

In: bytes of a client. Out: a ``ChatRequest`` for ``gateway.vote``, and its reply as bytes.
Read ``app``, then ``request``.
"""
