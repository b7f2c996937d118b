"""YAML and JSON bytes to values with positions, for policies, manifests and facts."""

from webhook.documents.model import Document, Path, Position, Problem, Reading, listed_objects
from webhook.documents.reader import read_documents

__all__ = ["Document", "Path", "Position", "Problem", "Reading", "listed_objects", "read_documents"]
