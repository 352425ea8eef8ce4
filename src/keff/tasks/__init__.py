"""Benchmarks and the user own questions: one task a file."""
