"""Deploy the CDK app from an installed ddbload: its files, tools and settings."""
