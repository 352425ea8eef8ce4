"""``keff`` and ``python -m keff``."""

from keff.cli import main

if __name__ == "__main__":
    main()
