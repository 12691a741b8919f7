"""Other ways to load a file with Python, as small programs, each tuned for speed.

    python -m bench.rivals.NAME FILE TABLE SETTINGS

SETTINGS is JSON: {"columns": {name: type}, "delimiter": ..., "header": ..., "concurrency": ...}.
Endpoint and trusted certificate come from AWS's environment variables.
"""
