"""A DynamoDB that fails over real sockets."""
