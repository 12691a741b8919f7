"""Servers that fail over real sockets, and clients tested against them."""
