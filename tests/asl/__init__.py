"""Tests of the state machine's definition in the repository."""
