"""Serializers of the usages of a resource."""

from typing import Any

from rest_framework import serializers


class UseDocument(serializers.Serializer[Any]):
    """Resource that refers to another one, with its URL."""

    title = serializers.CharField()
    url = serializers.CharField()


class UsesDocument(serializers.Serializer[Any]):
    """References to a resource; `hidden` counts those that the caller may not view."""

    results = UseDocument(many=True, source="visible")
    hidden = serializers.IntegerField()
