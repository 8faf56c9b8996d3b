-- Which conclusions were to be deleted at Honcho is forgotten: none of them ever is.
DELETE FROM outbox WHERE kind = 'unconclude';
DROP TABLE retired;
CREATE INDEX versions_deleted ON versions (user_id) WHERE deleted;
