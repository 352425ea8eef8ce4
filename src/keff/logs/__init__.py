"""Readers of recorded answers, one file per format.

In: a file or folder. Out: ``Question`` after ``Question``, or whole columns.
Read ``keff.log`` (the interface), then ``parts/field_table`` with ``vllm`` (a small reader), and ``keff_jsonl``.
"""
