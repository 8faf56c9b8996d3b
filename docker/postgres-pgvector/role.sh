#!/bin/sh
# Run once, when the server is made: a role that is bound by row-level security, as a superuser is not, its database, and
# the role whose members may use it too, each for themselves.
set -eu
psql --set ON_ERROR_STOP=1 --username postgres --set password="$WARMSTART_DB_PASSWORD" <<'SQL'
CREATE ROLE warmstart LOGIN NOSUPERUSER NOBYPASSRLS PASSWORD :'password';
CREATE ROLE warmstart_users NOLOGIN;
CREATE DATABASE warmstart OWNER warmstart;
REVOKE CONNECT ON DATABASE warmstart FROM PUBLIC;
GRANT CONNECT ON DATABASE warmstart TO warmstart, warmstart_users;
\connect warmstart
CREATE EXTENSION IF NOT EXISTS vector;
ALTER DEFAULT PRIVILEGES FOR ROLE warmstart GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO warmstart_users;
SQL
