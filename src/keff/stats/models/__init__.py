"""Models of questions that go beyond what was recorded: beta-binomial, answer models, bounds, limit laws.

In: ``Votes`` or plain numbers. Out: predicted accuracies with what they assume.
Read ``betabinomial`` (majority), then ``plurality_model`` (what the analysis shows beyond the recorded K).
"""
