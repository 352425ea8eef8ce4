"""The OpenAI protocol, shared by the engines (client) and the gateway.

In: bytes of another server or client. Out: checked values, and calls over HTTP.
Read ``values`` (JSON, events and compressed bodies), then ``server`` (addresses, keys, refusals), ``reply``
(answers and their tokens), ``responses`` (the Responses API as chat), ``client`` and ``connection`` (HTTP).
"""
