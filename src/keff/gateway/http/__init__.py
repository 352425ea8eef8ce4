"""HTTP towards clients: sockets, heads, request checks, replies, streams, pass-through.

In: bytes of a client. Out: a ``ChatRequest`` for ``gateway.vote``, and its reply as bytes.
Read ``app``, then ``request``.
"""
