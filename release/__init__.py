"""Build what is released: the wheel's data, and the zip application."""
