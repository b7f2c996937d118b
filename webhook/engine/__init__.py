"""The engine: one answer to one request, wherever it is asked."""

from webhook.engine.outcome import Action, Outcome, Report
from webhook.engine.review import Gate, mutate, never, review, validate

__all__ = ["Action", "Gate", "Outcome", "Report", "mutate", "never", "review", "validate"]
