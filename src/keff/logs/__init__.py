"""Readers of recorded answers: one format a file."""
