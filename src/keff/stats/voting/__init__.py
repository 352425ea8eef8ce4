"""Votes of one branch: plurality and majority over subsets and orders of recorded paths, and c.

In: ``Votes``. Out: arrays and small results.
Read ``correlation`` and ``choose`` (c, K_eff, K*), then ``plurality`` (exact averages over subsets), then
``draws`` (the running vote along random orders).
"""
