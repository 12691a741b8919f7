"""What an import would come to: read everything, write nothing."""
