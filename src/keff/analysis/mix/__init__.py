"""Combinations of branches (models or prompts): singles, cascades and mixes replayed, and the choice."""
