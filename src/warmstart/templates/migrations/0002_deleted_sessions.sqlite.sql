-- What a session was asked for goes with it, while its row is still there: a host may have named it by the agent's own id.
CREATE TRIGGER template_uses_forgotten AFTER INSERT ON deleted_sessions BEGIN
    UPDATE template_uses
        SET task = '' WHERE task <> '' AND session IN (new.id, (SELECT s.native_id FROM sessions s WHERE s.id = new.id));
END;
