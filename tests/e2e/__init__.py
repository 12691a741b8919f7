"""Whole imports: the real command, its worker processes, and servers over sockets."""
