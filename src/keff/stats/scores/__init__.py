"""Repeated scores of the same questions: noise, reliability over trials, paired differences, suspect golds.

In: scores by question and repeat. Out: standard errors with their parts. Read ``repeats``, then
``reliability`` and ``better``.
"""
