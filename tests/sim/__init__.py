"""A simulated DynamoDB and network behind the scheduler's interface, in virtual time."""
