"""What must never be stored or shown: secrets are found and replaced before anything is written or rendered."""

from warmstart.redact.redactor import Finding, Redacted, Redactor, redact

__all__ = ["Finding", "Redacted", "Redactor", "redact"]
