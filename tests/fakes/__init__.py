"""In-memory S3, DynamoDB and Step Functions with the interfaces of botocore's clients.

tests/contract/ runs the same tests against these and against real servers, so that a fake cannot
drift from the real service.
"""
