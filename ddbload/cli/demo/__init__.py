"""`ddbload demo`: a real import into a strict DynamoDB on this machine, and its proof."""
