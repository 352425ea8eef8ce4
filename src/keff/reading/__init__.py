"""Reading of runs and logs into Records: find the format, extract answers, score them.

In: a path, or data in memory. Out: a ``Record`` with its ``Votes``.
Read ``source`` (the single way in), ``open`` (a log as one record), then ``ballot`` (questions to votes).
"""
