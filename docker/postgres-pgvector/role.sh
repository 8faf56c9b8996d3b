#!/bin/sh
# Run once, when the server is made: a role that is bound by row-level security, as a superuser is not, and its database.
set -eu
psql --set ON_ERROR_STOP=1 --username postgres --set password="$WARMSTART_DB_PASSWORD" <<'SQL'
CREATE ROLE warmstart LOGIN NOSUPERUSER NOBYPASSRLS PASSWORD :'password';
CREATE DATABASE warmstart OWNER warmstart;
\connect warmstart
CREATE EXTENSION IF NOT EXISTS vector;
SQL
