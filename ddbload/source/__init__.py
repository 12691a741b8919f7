"""Byte sources: local files, standard input and S3 objects, each pinned to one version."""
