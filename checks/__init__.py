"""Checks of the code that ruff and mypy do not have."""
