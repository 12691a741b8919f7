"""Tests against versitygw, an S3 server that shares no code with the fakes: `make test-versitygw`.

`go.mod` and `go.sum` pin it, and all that it is built from, by version and hash.
"""
