"""Shared parts of log readers: lines, columns, tables, values, zip members.

In: a file. Out: questions, or whole columns of them.
Read ``lines`` and ``columns``, then ``bulk`` (records read by columns, without an object per path).
"""
