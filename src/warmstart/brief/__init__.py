"""The brief as it is stored: built when a session ends, printed when the next one starts."""
