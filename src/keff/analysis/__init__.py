"""Analyses of a record: estimates, the decision, comparisons, mixes, noise and audits.

In: a ``Record`` (or several). Out: frozen results of ``results``, and the plan to deploy (``plans``).
Read ``front`` (the functions of ``import keff``), then ``estimates`` (what ``keff analyze`` computes), then
``decision``.
"""
