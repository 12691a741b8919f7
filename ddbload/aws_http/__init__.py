"""Talking to AWS: clients, what their failures mean, and when to try again."""
