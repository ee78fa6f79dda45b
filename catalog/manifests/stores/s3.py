"""S3 store: objects of a bucket."""

import re
from collections.abc import Mapping
from typing import Any, Final

from catalog.manifests.stores.registry import StoreField, register_store
from catalog.manifests.stores.remote import CONNECTOR_FIELD, RemoteStore

_BUCKET_PATTERN: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z")


@register_store
class S3Store(RemoteStore):
    """The objects of a bucket, read with an AWS connector."""

    name = "S3"
    title = "S3"
    choice = "S3 bucket"
    position = 4
    connector_kind = "Aws"
    place_fields = (
        CONNECTOR_FIELD,
        StoreField("region", "Region of the bucket", placeholder="us-east-1", max_length=64, is_needed=True),
        StoreField("bucket", "Bucket", is_needed=True),
    )

    def describe_place_problem(self, place: Mapping[str, str]) -> str:
        if not place.get("region"):
            return "place needs the region of the bucket"
        bucket = place.get("bucket", "")
        if "<+" not in bucket and not _BUCKET_PATTERN.match(bucket):
            return "bucket is the name of an S3 bucket: 3 to 63 small letters, digits, dots and dashes"
        return ""

    def describe_location(self, place: Mapping[str, str]) -> str:
        return f"the bucket {place.get('bucket', '')} in {place.get('region', '')}"

    def build_request(self, place: Mapping[str, str]) -> dict[str, Any]:
        return {"region": place["region"], "bucket": place["bucket"]}
