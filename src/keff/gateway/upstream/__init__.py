"""The servers that draw paths: health, fallback, and requests passed through unchanged.

In: a request's body. Out: answers as they come. Read ``server``, then ``fleet``.
"""
