"""JSON Pointer (RFC 6901): a place inside a JSON document, as JSON Patch names it."""

from webhook.documents import Path


def escape(segment: str) -> str:
    """A map key as it stands in a pointer: `~` as `~0`, `/` as `~1`, in this order (RFC 6901, section 3)."""
    if "~" in segment:
        segment = segment.replace("~", "~0")
    return segment.replace("/", "~1") if "/" in segment else segment


def format_pointer(path: Path) -> str:
    """The pointer to a path of map keys and list indices; the empty string is the whole document."""
    return "".join([f"/{escape(segment) if isinstance(segment, str) else segment}" for segment in path])
