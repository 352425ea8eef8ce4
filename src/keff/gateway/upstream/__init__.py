"""The servers that draw paths: connections, proxies, health, fallback, and requests passed through unchanged.

In: a request's body. Out: answers as they come. Read ``client``, then ``server``, then ``fleet``.
"""
