"""Contract tests, which run against a fake and against the real server.

Differences between the real servers used and AWS are not tested.
"""
