"""Accounts of named clients: limits reserved before a request draws, settled after.

In: a request's bounds and usage. Out: admission or refusal. Read ``accounts``, then ``billing``.
"""
