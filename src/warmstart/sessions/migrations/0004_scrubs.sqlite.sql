-- Triggers of other packages fire on it when traces of what was deleted are to be removed.
CREATE TABLE scrubs (id INTEGER PRIMARY KEY);
