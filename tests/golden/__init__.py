"""Awkward files, one awkwardness each, with the rows that are in them. See README.md here."""
