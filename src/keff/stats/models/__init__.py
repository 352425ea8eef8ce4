"""Models of questions that go beyond what was recorded: beta-binomial, answer models, bounds.

In: ``Votes`` or plain numbers. Out: predicted accuracies with their assumptions.
Read ``betabinomial`` (the paper's formulas), then ``plurality_model`` (predicted plurality beyond the
recorded K) and the ``answer_model`` on which it rests.
"""
