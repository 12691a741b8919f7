"""`ddbload demo`: import a file on this machine, and compare the table with the file."""
