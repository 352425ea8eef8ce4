"""Results of the analyses as frozen dataclasses, one module for each command.

In: figures of an analysis. Out: fields that JSON, tables and the page show alike.
Read ``estimates`` (``Analysis``), then ``decision``.
"""
