"""Constants learned from recorded generations by ``benchmarks.constants.learn_gain``.

17 families of 61 recorded workloads by data set, each family counting alike. The ranges are
those of the constant when any one family is left out, by data set or by source.
"""

# Standard deviation of what the answer model errs in plurality@k beyond sampling, for each unit of 1/K0 -
# 1/k. Left out: 0.0581 to 0.0737.
MODEL_SD = 0.0702

# The same for the line in 1/k, on workloads whose right answers do not meet (two families: rough). Left out:
# 0.235 to 0.728.
LINE_SD = 0.235

# Standard deviation of what the beta-binomial law errs in logit majority@k, for each unit of 1 - 2/k. Left
# out: 0.101 to 0.152.
LAW_SD = 0.139
