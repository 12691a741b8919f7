"""The steps of an import, and the ledger they share: what composes source, rows and write."""
