"""The write engine: its scheduler, its drivers, and what DynamoDB's answers mean to it."""
