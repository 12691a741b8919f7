"""From bytes to fields: detection, dialects, row ends, columns. Pure: no I/O, no clock, no AWS."""
