"""``keff`` and ``python -m keff``."""

import gc

# New containers before the garbage collector looks among them: modules and rows are no garbage, and looking
# after every 700, as is usual, takes a tenth of the start.
FEW_COLLECTIONS = 50_000


def main() -> None:
    """Run the command line."""
    gc.set_threshold(FEW_COLLECTIONS)
    from keff.cli import main

    main()


if __name__ == "__main__":
    main()
