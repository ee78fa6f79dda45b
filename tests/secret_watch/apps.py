"""Has every process that a test starts with the settings of the tests watched."""

import os

from django.apps import AppConfig

from tests.secret_watch.marker import FOUND


class Watching(AppConfig):
    """Watches from the moment on in which all apps are there."""

    name = "tests.secret_watch"

    def ready(self) -> None:
        # Whoever measures with these settings is not watched, and not slowed down.
        if FOUND in os.environ:
            from tests.secret_watch.sinks import watch_all

            watch_all()
