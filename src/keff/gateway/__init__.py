"""The gateway: an OpenAI-compatible endpoint that serves a plan (extra ``serve``), with a drift alarm.

In: requests of clients. Out: replies that hold the vote of several paths, whole or streamed.
A request is parsed by ``http.request`` and compared with the plan by ``vote.request_policy``; its paths are
drawn by ``upstream`` and counted by ``vote.vote``.
Read ``service``, then ``vote.chat`` (a request's life), then ``vote.vote``.
"""
