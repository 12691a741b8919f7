"""The steps of an import, on fakes: no network, no disk, no time of day."""
