"""AdmissionReview: bytes to the engine's types and back; the only package that knows the wire."""

from webhook.admission.answer import Answer, Endpoint, ReviewRecord, answer_review
from webhook.admission.parse import BadReviewError, parse_review
from webhook.admission.response import build_response

__all__ = [
    "Answer",
    "BadReviewError",
    "Endpoint",
    "ReviewRecord",
    "answer_review",
    "build_response",
    "parse_review",
]
