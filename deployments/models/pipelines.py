"""What to do: pipelines, whose YAML is the truth."""

from django.db import models

from deployments.models.base import Resource, unique_in_scope


class Pipeline(Resource):
    """Stages and steps, written as YAML."""

    yaml = models.TextField()
    next_number = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [unique_in_scope("pipeline")]
