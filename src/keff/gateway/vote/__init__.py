"""The vote of one request: its kind of answer, its policy, its paths, how they are read, and what wins.

In: a checked request and the servers. Out: an ``Outcome``. Read ``chat`` (a request's life), then ``vote``.
"""
