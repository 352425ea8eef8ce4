"""Upstream servers that draw paths: health and fallback.

In: a request's body. Out: answers as they come. Read ``server``, then ``fleet``.
"""
