"""The Django app of executions."""

from django.apps import AppConfig


class DeploymentsConfig(AppConfig):
    """Amazon ECS deployments."""

    name = "deployments"
    verbose_name = "Deployments"
