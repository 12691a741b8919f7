"""What `cdk deploy` makes, one construct a file. `app.py` is the entry, cdk.json has the knobs."""
