"""Tasks, questions with gold answers; one per file. ``SpacedTask`` is the base class for your own."""

from keff.tasks._base import SpacedTask

__all__ = ["SpacedTask"]
