"""Readers of recorded answers, one file per format.

In: a file or folder. Out: ``Question`` by ``Question``, with recorded answers, golds and scores.
Read ``keff_jsonl`` (a whole one), then ``parts.lines``; the interface is ``keff.log``.
"""
