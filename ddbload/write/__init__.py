"""Write engine: a pure scheduler decides which requests to send, and drivers send them."""
