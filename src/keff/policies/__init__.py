"""Policies, which decide when to stop; one per file. ``TablePolicy`` is a base class for your own.

In: the votes so far. Out: draw more, or stop with an answer.
Read ``keff.policy`` (the interface), then ``lead_k`` (a typical rule) and ``_table`` (rules as tables).
"""

from keff.policies._table import TablePolicy

__all__ = ["TablePolicy"]
