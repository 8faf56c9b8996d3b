"""What must never be kept or shown: secrets are found and replaced before every write and every rendering."""
