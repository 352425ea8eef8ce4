"""What answer spaces are made of: the text that may hold an answer, numbers, mathematics, JSON, SQL, workers.

In: a completion's text. Out: an answer's canonical form.
Read ``base`` (what a space offers), then ``visible`` and ``statements`` (where the answer is), then ``vote``.
"""
