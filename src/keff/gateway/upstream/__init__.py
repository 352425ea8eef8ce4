"""Upstream servers that draw paths: health, fallback, and pass-through of other requests.

In: a request's body. Out: answers as they come. Read ``server``, then ``fleet``.
"""
