"""What failed AWS calls mean, single calls, and how clients are made."""
