"""The OpenAI protocol, shared by the engines (client) and the gateway.

In: bytes and JSON of others. Out: checked requests, answers with their tokens, typed refusals.
Read ``values`` (JSON, events, bodies), then ``server`` (addresses, keys, requests), then ``reply``;
``client`` and ``connection`` speak HTTP, and ``responses`` is the Responses API in the words of chat.
"""
