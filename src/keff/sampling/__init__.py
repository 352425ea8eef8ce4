"""Sampling: draw the paths of a task from an engine under a policy into a run folder, resumably.

In: items, a policy or a number of paths, an engine. Out: a run folder that a later call goes on with.
Read ``job`` (one run from its options), then ``sampler`` (the loop), then ``store``.
"""

# The file that makes a folder a run.
RUN_FILE = "manifest.json"

# Embeddings of a run's paths, where they were asked for.
EMBEDDINGS = "embeddings.npy"
