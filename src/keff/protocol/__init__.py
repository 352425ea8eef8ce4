"""The OpenAI protocol, shared by the engines (client) and the gateway.

One place for both.

JSON, events and compressed bodies of others (``values``), then addresses, keys, requests and refusals
(``server``), answers and their tokens (``reply``), and the Responses API in the words of chat
(``responses``). Calls over HTTP are ``client`` and ``connection``, by httptools.
"""
