CREATE FUNCTION warmstart_forget_tasks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE template_uses SET task = ''
    WHERE task <> '' AND session IN (new.id, (SELECT s.native_id FROM sessions s WHERE s.id = new.id));
 RETURN NULL; END $$;
CREATE TRIGGER template_uses_forgotten AFTER INSERT ON deleted_sessions FOR EACH ROW EXECUTE FUNCTION
    warmstart_forget_tasks();
