"""What a fake and the real thing have in common: every test here runs against both.

Where a real server differs from AWS, its difference is not tested: it is no law.
"""
