"""The vote of one request: kind of answer, policy, paths, extraction, and winner.

In: a checked request and the servers. Out: an ``Outcome``. Read ``chat`` (a request's life), then ``vote``.
"""
