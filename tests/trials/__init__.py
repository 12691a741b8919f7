"""Trials: what takes longer than CI, run by `make trials`."""
