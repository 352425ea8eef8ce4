"""keff inside other tools, by their own plugs; each module needs an extra.

In: requests of LiteLLM, samples of inspect_ai. Out: replies and samples that were voted on, and figures.
Read ``litellm`` (a provider that votes) or ``inspect_ai`` (a solver, a reducer and metrics).
"""
