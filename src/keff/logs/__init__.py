"""Readers of recorded answers, one file per format.

In: a file or folder. Out: ``Question`` after ``Question``, or whole columns.
Read ``keff.log`` (the interface), then ``openai_batch`` (a small reader) and ``keff_jsonl``.
"""
