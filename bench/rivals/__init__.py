"""What else a Python programmer would load a file with: small programs, each at its best.

    python -m bench.rivals.NAME FILE TABLE SETTINGS

SETTINGS is JSON: {"columns": {name: type}, "delimiter": ..., "header": ..., "concurrency": ...}.
Where DynamoDB is, and whom to trust, they find out from AWS's environment variables.
"""
