"""Steps of the state machine: preflight, import_chunk and report, with their parts."""
