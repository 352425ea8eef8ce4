"""HTTP as clients see it: sockets, heads, requests checked, replies and streams written.

In: bytes of a client. Out: a ``ChatRequest`` for ``gateway.vote``, and its reply as bytes.
Read ``app``, then ``request``.
"""
