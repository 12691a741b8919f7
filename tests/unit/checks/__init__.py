"""Tests of the checks that `make` runs on the code."""
