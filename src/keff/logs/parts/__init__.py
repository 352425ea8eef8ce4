"""Shared parts of log readers: lines, columns, tables, values, zip members.

In: a file. Out: questions, or whole columns of them.
Read ``tabled`` (questions from rows) and ``columns``, then ``bulk`` (records as columns, without an object
per path).
"""
