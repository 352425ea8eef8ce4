"""Task x engine x policy -> run folder: draw paths, keep them, resume."""

# The file that makes a folder a run.
RUN_FILE = "manifest.json"

# Embeddings of a run's paths, where they were asked for.
EMBEDDINGS = "embeddings.npy"
