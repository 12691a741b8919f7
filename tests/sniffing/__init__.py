"""Files whose dialect is hard to guess."""
