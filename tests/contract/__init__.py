"""Contract tests, which run against a fake and against the real server.

Where a real server differs from AWS, its difference is not tested: it is no law.
"""
