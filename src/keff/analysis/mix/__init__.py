"""Combinations of branches (models or prompts): singles, cascades and mixes replayed, and the choice.

In: aligned branches and prices. Out: ``MixFindings`` with the plan to deploy.
Read ``study`` (one analysis from start to end), then ``search`` (candidate plans), ``choose``, and
``claims`` (what the plan taken is expected to do).
"""
