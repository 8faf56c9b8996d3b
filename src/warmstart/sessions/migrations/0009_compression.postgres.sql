-- PostgreSQL compresses long texts by itself. These let both dialects share their SQL; the planner inlines them.
CREATE FUNCTION compress(body text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN body;
CREATE FUNCTION decompress(body text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN body;
