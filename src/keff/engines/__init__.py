"""Engines, which draw paths; one per file."""
