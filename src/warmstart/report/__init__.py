"""Charts and pages: numbers and texts in, one HTML file out. Knows nothing about sessions."""
