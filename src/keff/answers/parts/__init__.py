"""Parts of answer spaces: visible text, numbers, mathematics, JSON, SQL, worker processes.

In: a completion's text. Out: an answer's canonical form.
Read ``base`` (what a space offers, and which part of a text is read), then ``statements`` (where the answer
is), then ``fields`` (from a text to its vote).
"""
