"""Alembic's environment and the revisions; ``zun.store.migrate`` runs them. Never imported by the services at head."""
