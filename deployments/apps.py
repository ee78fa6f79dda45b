"""The Django app of services, pipelines and their executions."""

from django.apps import AppConfig


class DeploymentsConfig(AppConfig):
    """Amazon ECS deployments."""

    name = "deployments"
    verbose_name = "Deployments"
