"""Task x engine x policy -> run folder: draw paths, keep them, resume."""

RUN_FILE = "manifest.json"
"""The file that makes a folder a run."""
