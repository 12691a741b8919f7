"""The write engine: a pure scheduler, and drivers that send what it says."""
