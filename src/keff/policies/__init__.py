"""Policies, which decide when to stop; one per file. ``TablePolicy`` is a base class for your own.

In: the votes so far (a ``View``). Out: draw so many more, or stop with this answer.
Read ``lead_k``, then ``_table`` (how a rule of counts is replayed fast; ``TablePolicy``, for your own).
"""

from keff.policies._table import TablePolicy

__all__ = ["TablePolicy"]
