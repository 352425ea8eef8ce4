"""The paper's study: its records, tables and figures, and the differences from our estimates.

In: records in the paper's layout, or a study file. Out: its tables, figures, numbers, and where ours differ.
Read ``reproduce``, then ``page``.
"""
