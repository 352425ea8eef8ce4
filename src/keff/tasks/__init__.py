"""Tasks, questions with gold answers; one per file. ``SpacedTask`` is the base class for your own.

In: rows of a data set. Out: items with messages, gold answer and answer space.
Read ``gsm8k`` (a whole one), then ``_base`` (``SpacedTask``, for a task of your own).
"""

from keff.tasks._base import SpacedTask

__all__ = ["SpacedTask"]
