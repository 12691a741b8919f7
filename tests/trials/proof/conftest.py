"""Fixtures of the proof."""

from tests.proof.conftest import aws, cloud

__all__ = ["aws", "cloud"]
