"""Tests of `ddbload.pipeline.plan`."""
