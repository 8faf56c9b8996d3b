"""For your own tests: a scripted model endpoint, and conformance suites for stores and memory backends (pytest)."""
