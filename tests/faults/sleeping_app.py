"""An application of Celery with the product's settings, whose only task takes as long as it is told."""

import os
import time

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("naps", set_as_current=False)
app.config_from_object("django.conf:settings", namespace="CELERY")


@app.task(shared=False)
def nap(name: str, seconds: float) -> None:
    print(f"{name} began", flush=True)
    time.sleep(seconds)
    print(f"{name} is over", flush=True)
