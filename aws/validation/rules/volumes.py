"""Rules on the volumes of a task definition, in general and on Fargate (R135-R138)."""

import re
from collections.abc import Iterator

from aws.validation.problems import ParameterPath, ShapeProblem, quote_value
from aws.validation.rules.common import RuleDocument, check_duplicates, check_name, is_literal

EFS_CONFIGURATION = "efsVolumeConfiguration"
_FILE_SYSTEM = re.compile(r"fs-[0-9a-f]{8,40}\Z")
_ACCESS_POINT = re.compile(r"fsap-[0-9a-f]{8,40}\Z")
# The volumes that Fargate has; an empty one lives in the task's own storage.
_NON_FARGATE_VOLUMES = {
    "dockerVolumeConfiguration": "Docker volumes are not possible on Fargate",
    "fsxWindowsFileServerVolumeConfiguration": "FSx for Windows volumes are not possible on Fargate",
}


def validate_volumes(definition: RuleDocument) -> Iterator[ShapeProblem]:
    """Yield the problems of volumes on every launch type."""
    volumes = definition.get("volumes") or []
    yield from check_duplicates(("volumes",), volumes, "name", "volume name")
    for number, volume in enumerate(volumes):
        path: ParameterPath = ("volumes", number)
        yield from check_name((*path, "name"), volume.get("name"), "volume name")
        if not volume.get("name"):
            yield ShapeProblem(path, "a volume needs a name")
        kinds = [key for key in volume if key.endswith("VolumeConfiguration") or key == "host"]
        if len(kinds) > 1:
            yield ShapeProblem(path, f"has several kinds at once: {', '.join(kinds)}; keep one")
        if volume.get(EFS_CONFIGURATION):
            yield from _check_efs(volume[EFS_CONFIGURATION], definition, (*path, EFS_CONFIGURATION))


def validate_fargate_volumes(definition: RuleDocument) -> Iterator[ShapeProblem]:
    """Yield the volumes that Fargate refuses, because they need the host."""
    for number, volume in enumerate(definition.get("volumes") or []):
        for key, message in _NON_FARGATE_VOLUMES.items():
            if volume.get(key):
                yield ShapeProblem(("volumes", number, key), message)
        if (volume.get("host") or {}).get("sourcePath"):
            path = ("volumes", number, "host", "sourcePath")
            yield ShapeProblem(path, "Fargate has no host whose folders could be mounted")
    yield from check_ephemeral_storage(definition, ())


def check_ephemeral_storage(document: RuleDocument, path: ParameterPath) -> Iterator[ShapeProblem]:
    """Yield the problem of a size that Fargate does not have, of a task definition or of overrides."""
    size = (document.get("ephemeralStorage") or {}).get("sizeInGiB")
    if isinstance(size, int) and not 21 <= size <= 200:
        yield ShapeProblem((*path, "ephemeralStorage", "sizeInGiB"), f"is {size}; 21 to 200 GiB allowed")


def _check_efs(efs: RuleDocument, definition: RuleDocument, path: ParameterPath) -> Iterator[ShapeProblem]:
    yield from _check_id((*path, "fileSystemId"), efs.get("fileSystemId"), _FILE_SYSTEM, "fs-0123abcd")
    access = efs.get("authorizationConfig") or {}
    point = access.get("accessPointId")
    point_path = (*path, "authorizationConfig", "accessPointId")
    yield from _check_id(point_path, point, _ACCESS_POINT, "fsap-0123abcd")
    root = efs.get("rootDirectory")
    if point and root not in (None, "", "/"):
        message = "an access point brings its own root directory; leave rootDirectory out, or write /"
        yield ShapeProblem((*path, "rootDirectory"), message)
    elif is_literal(root) and root and not str(root).startswith("/"):
        yield ShapeProblem(
            (*path, "rootDirectory"), f"{quote_value(root)} is not an absolute path: start with /"
        )
    uses_iam = access.get("iam") == "ENABLED"
    if (point or uses_iam) and efs.get("transitEncryption") != "ENABLED":
        subject = "an access point" if point else "IAM authorization"
        message = f"{subject} needs transitEncryption: ENABLED"
        yield ShapeProblem((*path, "transitEncryption") if "transitEncryption" in efs else path, message)
    if uses_iam and not definition.get("taskRoleArn"):
        message = (
            "IAM authorization needs a taskRoleArn on the task definition that may call "
            "elasticfilesystem:ClientMount and elasticfilesystem:ClientWrite"
        )
        yield ShapeProblem((*path, "authorizationConfig", "iam"), message)
    if efs.get("transitEncryptionPort") is not None and efs.get("transitEncryption") != "ENABLED":
        message = "is only used with transitEncryption: ENABLED"
        yield ShapeProblem((*path, "transitEncryptionPort"), message)


def _check_id(
    path: ParameterPath, value: object, pattern: re.Pattern[str], example: str
) -> Iterator[ShapeProblem]:
    if is_literal(value) and not pattern.match(str(value)):
        yield ShapeProblem(path, f"{quote_value(value)} is not an id; one looks like {example}")
