"""The report on a corpus as one page that opens without a network."""
