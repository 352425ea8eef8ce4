"""The OpenAI protocol as keff speaks it, as a client and as a gateway.

One place for both, and no network in it.

Requests (``form``), addresses and keys (``address``), answers (``values``, ``tokens``, ``reply``,
``assemble``), errors (``refusals``), waiting (``patience``), several paths in one request (``sharing``),
server-sent events (``events``) and compressed bodies (``unpack``). The engine moves the bytes by httpx, the
gateway by httptools.
"""
