"""In-memory S3 and DynamoDB, shaped like botocore's clients.

tests/contract/ runs the same tests against these and against real servers, so that a fake cannot
drift from what it stands for.
"""
