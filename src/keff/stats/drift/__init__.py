"""Label-free drift of a deployment against its pilot, and alarms that hold at any time.

In: partition patterns of answers. Out: scores and alarms. Read ``patterns``, then ``drift``, then ``alarms``.
"""
