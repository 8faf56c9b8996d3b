"""Does it help? Design, assignment, lab and field experiments, metrics, statistics and the verdict."""
