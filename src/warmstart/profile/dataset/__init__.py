"""The open dataset of markers."""
