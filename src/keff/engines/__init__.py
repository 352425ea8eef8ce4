"""Engines, which draw paths; one per file.

In: messages, sampling settings, a seed. Out: completions.
Read ``fake`` (a whole one without a model), then ``openai``; the interface is ``keff.engine``.
"""
