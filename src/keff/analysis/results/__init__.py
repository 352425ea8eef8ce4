"""Results of the analyses as frozen dataclasses, one module for each command."""
