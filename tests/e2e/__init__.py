"""End-to-end tests: the command with its worker processes, against local servers."""
