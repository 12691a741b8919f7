import os

# pyarrow reads it when it is imported. Its other allocators keep up to 45 MB of freed memory.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
