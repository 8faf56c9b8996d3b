"""What a corpus of sessions says together: rates with intervals, signatures, and whether sessions learn."""
