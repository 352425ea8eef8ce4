"""When to stop drawing paths: one policy per file. ``TablePolicy`` is a base for a policy of your own."""

from keff.policies._table import TablePolicy

__all__ = ["TablePolicy"]
