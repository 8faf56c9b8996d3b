"""For your own tests: a scripted model endpoint, and test suites for stores and memory backends (need pytest)."""
