"""Tests of the command line: commands run as processes, their output and exit status."""
