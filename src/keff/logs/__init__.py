"""Readers of recorded answers: one format per file."""
