"""Text handling for all packages: tokenizer, shell commands, dates, truncation, and untrusted text."""
