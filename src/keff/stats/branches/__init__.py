"""Several branches or template slots on the same questions: covariances, weights, deflection, allocation.

In: one ``Votes`` a branch, or paths with slots. Out: correlations across branches and the weights of a mix.
Read ``covariance``, then ``deflection``, then ``weights``.
"""
