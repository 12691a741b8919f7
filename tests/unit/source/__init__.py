"""Tests of byte sources."""
