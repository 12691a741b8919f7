"""The functions of the deployed pipeline, one file a state: decode, call, encode."""
