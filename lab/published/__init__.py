"""Published ways as small programs. They run in `.venv-bench`, without ddbload.

Each prints one JSON object with at least `seconds`, the duration of its work without the start-up.
"""
