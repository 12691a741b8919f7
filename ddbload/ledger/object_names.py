"""Names of the objects of a run, below its folder in the ledger."""

from __future__ import annotations

from ddbload.contracts.chunks import Chunk


def manifest_part_name(byte: int) -> str:
    """Return the name of the part of the manifest that begins at a byte."""
    return f"manifest/{byte}.json"


def listing_page_name(listing: str, page: int) -> str:
    """Return the name of a page of a listing."""
    return f"listing/{listing}/{page:05d}.json"


def slices_name(chunk: Chunk) -> str:
    """Return the name of the slices of objects that a chunk reads."""
    return f"parts/{chunk.start}-{chunk.end}.json"


def segments_folder(chunk: int) -> str:
    """Return the folder of a chunk's segments."""
    return f"chunks/{chunk:05d}/"


def segment_name(chunk: int, start: int) -> str:
    """Return the name of the segment of a chunk that begins at a byte."""
    return f"{segments_folder(chunk)}{start}.json"


def attempts_folder(chunk: int) -> str:
    """Return the folder of a chunk's attempts."""
    return f"attempts/{chunk:05d}/"
