"""Engines, which draw paths; one per file.

In: messages, sampling parameters, a number of paths. Out: completions.
Read ``keff.engine`` (the interface), then ``fake`` (simulated), then ``openai`` (any compatible server).
"""
