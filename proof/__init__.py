"""The proof on a real AWS account: `make test-aws BUDGET=2` (docs/contributing/proof.md)."""
