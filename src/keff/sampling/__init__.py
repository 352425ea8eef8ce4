"""Sampling: draw the paths of a task from an engine under a policy into a run folder, resumably."""

# The file that makes a folder a run.
RUN_FILE = "manifest.json"

# Embeddings of a run's paths, where they were asked for.
EMBEDDINGS = "embeddings.npy"
