"""Charts and pages: numbers and text in, one HTML file out. Knows nothing about sessions."""
