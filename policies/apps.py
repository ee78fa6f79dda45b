"""Django app configuration of `policies`."""

from django.apps import AppConfig


class PoliciesConfig(AppConfig):
    """Policy rules and their evaluation."""

    name = "policies"
    verbose_name = "Policies"
