"""``python -m keff``."""

from keff.cli import main

main()
