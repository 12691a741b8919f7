"""Deploy the CDK app from an installed ddbload: its files, its tools, its settings."""
