"""The write engine: a pure scheduler decides what to send, and drivers send it."""
