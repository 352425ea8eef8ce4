"""Results of the analyses as frozen dataclasses, one module for each command.

In: the figures of an analysis. Out: the object of ``--json``, and its words (one line, a table, sentences).
Read ``estimates`` (the object of ``keff analyze``), then ``decision``, then ``words`` (sentences on rules).
"""
