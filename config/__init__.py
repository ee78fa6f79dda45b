"""Wiring of the parts, without behavior."""

from config.celery import app as celery_app

__all__ = ["celery_app"]
