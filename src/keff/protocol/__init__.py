"""The OpenAI protocol as keff speaks it, as a client and as a gateway.

One place for both, and no network in it.

JSON, events and compressed bodies of others (``values``), then addresses, keys, requests and refusals
(``server``), answers and their tokens (``reply``), and the Responses API in the words of chat
(``responses``). The engine moves the bytes by httpx, the gateway by httptools.
"""
