"""What `cdk deploy` would make, read from one synthesis."""
