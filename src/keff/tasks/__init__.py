"""Questions with their gold answers: one task per file. ``SpacedTask`` is the base for a task of your own."""

from keff.tasks._base import SpacedTask

__all__ = ["SpacedTask"]
