"""Sampling: draw the paths of a task from an engine under a policy into a run folder, resumably.

In: a ``Job`` (task, engine, run folder, number of paths). Out: stored and scored paths.
Read ``job``, then ``sampler``, then ``store`` (the run folder).
"""

# The file that makes a folder a run.
RUN_FILE = "manifest.json"

# Embeddings of a run's paths, where they were asked for.
EMBEDDINGS = "embeddings.npy"
