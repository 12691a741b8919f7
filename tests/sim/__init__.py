"""Simulations of DynamoDB and the network in virtual time, driven by the real scheduler."""
