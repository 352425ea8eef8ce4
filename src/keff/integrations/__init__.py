"""keff inside other tools, by their own plugs; each module needs the extra of its name.

Read ``litellm`` (a provider that votes) or ``inspect_ai`` (a solver, a reducer and metrics).
"""
