"""Experiments, one per module."""
