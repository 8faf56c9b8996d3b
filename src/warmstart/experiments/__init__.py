"""Does it help? Designs, assignment, running in the lab and in the field, metrics, statistics and the verdict."""
