"""Where was it said: finding passages of past sessions, with who said it, when, and in which session."""
