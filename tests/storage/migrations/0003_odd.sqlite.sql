-- A comment; with a semicolon, and a 'quote.
CREATE TABLE odd (body TEXT DEFAULT 'a;b');
CREATE TRIGGER odd_added AFTER INSERT ON odd BEGIN
    UPDATE odd SET body = new.body || ';' WHERE rowid = new.rowid;
    INSERT INTO notes (body) VALUES (new.body);
END;
-- The end.
