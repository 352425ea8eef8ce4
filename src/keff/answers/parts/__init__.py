"""What answer spaces are made of: the text that may hold an answer, numbers, mathematics, JSON, SQL, workers.

In: a completion's text. Out: an answer's canonical form.
Read ``base`` (what a space offers, and which part of a text is read), then ``statements`` (where the answer
is), then ``fields`` (from a text to its vote).
"""
