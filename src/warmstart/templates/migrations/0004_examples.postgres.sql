-- A procedure of several calls becomes an example.
UPDATE template_versions SET body = replace(body, '"kind":"procedure"', '"kind":"example"')
WHERE body LIKE '%"kind":"procedure"%';
