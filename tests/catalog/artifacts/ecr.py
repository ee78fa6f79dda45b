"""A repository of ECR in a pretend account, and images pushed to it."""

import hashlib
import json
from collections.abc import Callable

import boto3

IN_ECR = {"type": "Ecr", "connector": "sandbox_aws", "imagePath": "shop/web", "region": "us-east-1"}
MEDIA_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
Push = Callable[[str], str]
"""Pushes an image with a tag; its digest."""


def create_repository(url: str) -> Push:
    """Make the repository shop/web in the account behind `url`."""
    client = boto3.client(
        "ecr",
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id="AKIASANDBOX",
        aws_secret_access_key="any",
    )
    client.create_repository(repositoryName="shop/web")

    def push(tag: str) -> str:
        config = {"digest": f"sha256:{hashlib.sha256(tag.encode()).hexdigest()}"}
        layers = [config | {"size": 1, "mediaType": MEDIA_TYPE}]
        manifest = {"schemaVersion": 2, "mediaType": MEDIA_TYPE, "config": config, "layers": layers}
        response = client.put_image(
            repositoryName="shop/web", imageManifest=json.dumps(manifest), imageTag=tag
        )
        return str(response["image"]["imageId"]["imageDigest"])

    return push
