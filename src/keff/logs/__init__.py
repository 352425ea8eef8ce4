"""Readers of recorded answers, one file per format.

In: a file or folder. Out: ``Question`` after ``Question``, or whole columns.
Read ``keff.log`` (the interface), then ``vllm`` (a small reader) with ``parts/field_table``, and
``keff_jsonl``.
"""
