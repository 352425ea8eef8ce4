"""Shared parts of log readers: lines, columns, tables, values, zip members.

In: a file. Out: questions, or whole columns of them.
Read ``tabled`` (questions from rows), then ``columns``, then ``batches`` (many questions by columns).
"""
