"""The real command, run as a process: what it prints, and how it ends."""
