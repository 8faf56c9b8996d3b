"""Find and replace secrets before anything is stored or shown."""

from warmstart.redact.redactor import Finding, Redacted, Redactor, redact

__all__ = ["Finding", "Redacted", "Redactor", "redact"]
