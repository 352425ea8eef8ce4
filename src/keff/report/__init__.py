"""Findings to pictures and tables: one self-contained page, figures, tables."""
