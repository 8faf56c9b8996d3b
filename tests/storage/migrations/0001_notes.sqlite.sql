CREATE TABLE notes (body TEXT);
