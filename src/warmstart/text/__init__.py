"""What every package that reads text shares: words, shell commands, dates, truncation, and what not to trust."""
