"""Reading of runs and logs into Records: find the format, extract answers, score them.

In: a log, a run folder, arrays or a frame. Out: a ``Record``: its ballot (answers as codes), branches, notes.
Read ``open`` (how a record is opened), then ``ballot`` (how answers become votes).
"""
