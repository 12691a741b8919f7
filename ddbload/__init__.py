"""ddbload loads S3 objects and local files into DynamoDB tables, exact to the row."""

__version__ = "0.1.0"
