"""Which branches to combine: singles, cascades and mixes replayed, the choice, and what may be claimed."""
