"""The Celery application: workers and beat start from here."""

import gc
import os
from typing import Any

from celery import Celery, signals

from config import broker

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
# Checks import every view and form: 20 MiB and half a second of each worker. `migrate` has run them.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

broker.use()
app = Celery("slipway")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@signals.celeryd_after_setup.connect
def freeze_loaded_modules(**_: Any) -> None:
    """Keep the garbage collector off what is loaded, so that forked children go on sharing its pages."""
    gc.collect()
    gc.freeze()
