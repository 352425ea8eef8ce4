"""Analyses of a record: estimates, the decision, comparisons, mixes, noise and audits."""
