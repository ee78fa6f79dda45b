"""Serializers of the usages of a resource."""

from typing import Any

from rest_framework import serializers


class UseDocument(serializers.Serializer[Any]):
    """Something that uses a thing, and its page."""

    title = serializers.CharField()
    url = serializers.CharField()


class UsesDocument(serializers.Serializer[Any]):
    """What uses a thing; `hidden` counts what the caller may not see."""

    results = UseDocument(many=True, source="visible")
    hidden = serializers.IntegerField()
