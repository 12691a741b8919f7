"""`ddbload demo`: deploy the pipeline here, import a file, and compare the table with it."""
