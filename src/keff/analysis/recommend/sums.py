"""Means over questions and their variance, from sums: those of a part of the questions are taken away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keff.stats.resampling import group_sums, grouped
from keff.stats.votes import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over n questions in G clusters, of values [n, C]; m is how many questions a cluster has.

    ``total`` [C], ``squares`` [C] of the clusters' totals, ``sized`` [C] of these times m, ``sizes`` of m^2.
    """

    rows: int
    groups: int
    total: FloatArray
    squares: FloatArray
    sized: FloatArray
    sizes: float

    @classmethod
    def of(cls, values: FloatArray, clusters: IntArray) -> Sums:
        """Add up the values [n, C] of questions of some clusters [n]."""
        ids, size = grouped(clusters)
        by_cluster = group_sums(values, ids, size.size)
        squares = np.einsum("gc,gc->c", by_cluster, by_cluster)
        return cls(
            len(values),
            size.size,
            values.sum(axis=0),
            squares,
            size @ by_cluster,
            float(np.square(size).sum()),
        )

    def without(self, part: Sums) -> Sums:
        """Return the sums over the questions of all clusters but those of a part."""
        return Sums(
            self.rows - part.rows,
            self.groups - part.groups,
            self.total - part.total,
            self.squares - part.squares,
            self.sized - part.sized,
            self.sizes - part.sizes,
        )

    @property
    def mean(self) -> FloatArray:
        """The mean over questions [C]."""
        return self.total / self.rows

    @property
    def variance(self) -> FloatArray:
        """The variance of the mean over questions that were drawn by cluster [C]."""
        mean = self.mean
        # Over clusters, the sum of (total - m mean)^2.
        apart = self.squares - 2 * mean * self.sized + np.square(mean) * self.sizes
        return np.maximum(apart, 0.0) / self.rows**2 * self.groups / max(self.groups - 1, 1)
