"""Results of the analyses as frozen dataclasses, one module for each command.

A result is the JSON object of ``--json`` and its words: ``line``, ``rows`` and ``statements``.
Read ``estimates`` (``keff analyze``), then ``decision``; ``words`` has the sentences on rules.
"""
