-- How often the context of a conversation was compressed in all, and when it last was.
ALTER TABLE compressions ADD COLUMN total BIGINT NOT NULL DEFAULT 0;
ALTER TABLE compressions ADD COLUMN at DOUBLE PRECISION;
-- What a packet says about that, as JSON; empty if it says nothing.
ALTER TABLE packets ADD COLUMN compressed TEXT COLLATE "C" NOT NULL DEFAULT '';
