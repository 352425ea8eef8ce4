"""Votes of one branch: subsets and orders of recorded paths, the plurality and the majority over them, and c.

In: ``Votes``. Out: arrays and small results.
Read ``plurality`` (exact averages over subsets), then ``draws`` (a vote along an order of paths), then
``correlation`` (c) and ``choose`` (K_eff).
"""
