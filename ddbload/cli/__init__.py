"""The command line: click commands, and what they draw. boto3 and rich load when needed."""
