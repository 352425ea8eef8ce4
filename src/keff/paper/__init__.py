"""The paper's study: its records, tables and figures, and the differences from our estimates.

In: the published records, or the runs of a study. Out: tables, figures, numbers.json and a page.
Read ``reproduce`` (what is computed from which records), then ``saturation`` and ``matrix`` (the tables).
"""
