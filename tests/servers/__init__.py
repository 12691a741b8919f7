"""Servers on 127.0.0.1 that tests start and stop."""
