"""The gateway: an OpenAI-compatible endpoint that serves a plan (extra ``serve``), with a drift alarm.

In: a plan, and servers that draw paths. Out: a reply by their vote, whole or streamed, and what was saved.
Read ``http.app``, then ``vote.chat`` (a request's life), then ``vote.vote``.
"""
