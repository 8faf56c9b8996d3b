"""From a template to the messages that a session starts with: what is shown, how, and what has no room."""
