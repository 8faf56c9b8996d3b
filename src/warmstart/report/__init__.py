"""Charts and pages: numbers and texts in, one HTML file out. It knows nothing of sessions.

`pages` is loaded when it is first used, because Jinja2 takes a while to load.
"""
