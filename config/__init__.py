"""How the parts are wired together; no behaviour lives here."""

from config.celery import app as celery_app

__all__ = ["celery_app"]
