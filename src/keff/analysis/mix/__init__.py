"""Combinations of branches (models or prompts): singles, cascades and mixes replayed, and the choice.

In: records of several branches on the same questions. Out: a ``PlanChoice`` with what it costs and keeps.
Read ``choose``, then ``search`` (the candidate plans), then ``shrink`` (against luck of the pilot).
"""
