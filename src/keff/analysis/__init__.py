"""Analyses of a record: estimates, the decision, comparisons, mixes, noise and audits.

In: a ``Record``, an aim, prices. Out: frozen results with intervals.
Read ``front`` (the public functions), then ``estimates`` (one analysis), then ``decision``.
"""
