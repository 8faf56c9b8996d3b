"""What must never be kept or shown: secrets are found and replaced before every write and every rendering."""

from warmstart.redact.redactor import Finding, Redacted, Redactor, redact

__all__ = ["Finding", "Redacted", "Redactor", "redact"]
