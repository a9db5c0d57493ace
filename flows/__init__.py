"""Prefect: order, retries, schedule. No decisions: those are in `nightsweep.sweep` and in our database."""
