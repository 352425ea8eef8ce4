"""Policies, which decide when to stop; one per file. ``TablePolicy`` is a base class for your own."""

from keff.policies._table import TablePolicy

__all__ = ["TablePolicy"]
