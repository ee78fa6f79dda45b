"""Django app configuration of `web`."""

from django.apps import AppConfig


class WebConfig(AppConfig):
    """The plumbing between HTTP and the apps."""

    name = "web"
