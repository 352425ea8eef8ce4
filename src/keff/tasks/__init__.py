"""Tasks, questions with gold answers; one per file. ``SpacedTask`` is the base class for your own.

In: rows of a data set or file. Out: items, and the reading and scoring of completions.
Read ``keff.task`` (the interface), then ``_base`` and ``gsm8k`` (a typical benchmark).
"""

from keff.tasks._base import SpacedTask

__all__ = ["SpacedTask"]
