-- Runs once, when the cluster is made. The first database is made by the image itself (POSTGRES_DB).
-- Prefect gets its own: its migrations and ours both keep their state in a table called alembic_version.
CREATE DATABASE prefect OWNER nightsweep;
\connect prefect
-- A trusted extension: the owner of the database could make it too; here it cannot be forgotten.
CREATE EXTENSION IF NOT EXISTS pg_trgm;
