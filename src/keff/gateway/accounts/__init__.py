"""What named clients may spend: limits reserved before anything is drawn, and settled after.

In: a request's bounds and usage. Out: admission or refusal. Read ``accounts``, then ``billing``.
"""
