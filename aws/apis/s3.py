"""Text objects fetched from S3, by key or by prefix."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from aws.caller import BotoCaller
from aws.clients import Endpoint, get_client
from aws.errors import Invalid, NotFound, Unanswered
from aws.responses import convert_error
from guards.limits import GIT_BYTES, GIT_FILE_BYTES, GIT_FILES

_NOT_FOUND_CODES: Final = ("NoSuchKey", "404")


@dataclass(frozen=True)
class S3Objects:
    """Fetched objects: texts by key, and versions (or ETags without versioning) by key."""

    files: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


def fetch_objects(caller: BotoCaller, bucket: str, paths: Sequence[str]) -> S3Objects:
    """Fetch the objects at paths, and below those that are folders.

    Raises `AwsError`: `NotFound` for a missing path, `Invalid` above the size limit.
    """
    endpoint = Endpoint(caller.endpoint_url, caller.address_policy) if caller.endpoint_url else None
    reader = _S3Reader(get_client(caller.credentials, caller.region, endpoint, "s3"), bucket)
    try:
        for path in paths:
            reader.fetch(path.strip("/"))
    except (ClientError, BotoCoreError, ResponseParserError) as error:
        raise convert_error(error, "s3", "GetObject") from error
    return reader.objects


@dataclass
class _S3Reader:
    client: Any
    bucket: str
    objects: S3Objects = field(default_factory=S3Objects)
    bytes_left: int = int(GIT_BYTES)

    def fetch(self, path: str) -> None:
        if path and self._fetch_object(path):
            return
        keys = list(self._list_keys(f"{path}/" if path else ""))
        if not keys:
            raise NotFound(
                "NoSuchKey", f"there is no object {path} in the bucket {self.bucket}", "s3", "GetObject"
            )
        for key in keys:
            self._fetch_object(key)

    def _list_keys(self, prefix: str) -> Iterator[str]:
        response = self.client.list_objects_v2(Bucket=self.bucket, Prefix=prefix, MaxKeys=int(GIT_FILES) + 1)
        if response.get("IsTruncated"):
            message = f"there are more than {int(GIT_FILES)} objects below {prefix or 'the bucket'}"
            raise Invalid("TooLarge", message, "s3", "ListObjectsV2")
        yield from (item["Key"] for item in response.get("Contents") or () if not item["Key"].endswith("/"))

    def _fetch_object(self, key: str) -> bool:
        """Fetch an object into the result, and return whether it exists."""
        try:
            response = self.client.get_object(Bucket=self.bucket, Key=key)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in _NOT_FOUND_CODES:
                return False
            raise
        size = int(response.get("ContentLength") or 0)
        self.bytes_left -= size
        if size > GIT_FILE_BYTES or self.bytes_left < 0 or len(self.objects.files) >= GIT_FILES:
            raise Invalid(
                "TooLarge", f"{key} is too large, or all objects together are too large", "s3", "GetObject"
            )
        content: bytes = response["Body"].read(int(GIT_FILE_BYTES))
        if len(content) < size:
            # The reader reports an early end only to those who read without a limit.
            message = f"the answer for {key} ended after {len(content)} of {size} bytes"
            raise Unanswered("IncompleteRead", message, "s3", "GetObject")
        if b"\0" in content:
            message = f"{key} is not text: use object keys instead of a key prefix"
            raise Invalid("NoText", message, "s3", "GetObject")
        try:
            self.objects.files[key] = content.decode()
        except UnicodeDecodeError as error:
            message = f"{key} is not UTF-8: byte {error.start + 1} is not valid"
            raise Invalid("NoText", message, "s3", "GetObject") from error
        self.objects.versions[key] = str(
            response.get("VersionId") or str(response.get("ETag", "")).strip('"')
        )
        return True
