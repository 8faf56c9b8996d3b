-- How often the context of a conversation was compressed in all, and when it last was.
ALTER TABLE compressions ADD COLUMN total INTEGER NOT NULL DEFAULT 0;
ALTER TABLE compressions ADD COLUMN at REAL;
-- What a packet says about that, as JSON; empty if it says nothing.
ALTER TABLE packets ADD COLUMN compressed TEXT NOT NULL DEFAULT '';
