"""Servers that tests start on 127.0.0.1 and end again."""
