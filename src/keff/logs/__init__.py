"""Readers of recorded answers, one file per format."""
