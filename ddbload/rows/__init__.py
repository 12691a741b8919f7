"""From bytes to items: dialects, row ends, fields, types. Pure: no I/O, no clock, no AWS."""
