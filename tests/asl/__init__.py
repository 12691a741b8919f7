"""The state machine's definition, as it lies in the repository."""
