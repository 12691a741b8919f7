"""The ways that were published, as small programs. They run in `.venv-bench`, without ddbload.

Each prints one object of JSON: at least `seconds`, the time of its work without starting up.
"""
