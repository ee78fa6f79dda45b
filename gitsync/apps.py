"""Django app configuration of `gitsync`."""

from django.apps import AppConfig


class GitSyncConfig(AppConfig):
    """Git syncs and their passes."""

    name = "gitsync"
    verbose_name = "Git syncs"
