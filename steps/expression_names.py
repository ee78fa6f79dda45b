"""Names available to expressions, apart from variables and outputs, each with a description."""

from collections.abc import Mapping

from guards.limits import LISTENER_PAIRS

# Names available in every stage (R179, DESIGN 5).
FIXED: Mapping[str, str] = {
    "pipeline.name": "The name of the pipeline.",
    "pipeline.identifier": "The identifier of the pipeline.",
    "pipeline.number": "The number of the run.",
    "stage.name": "The name of the stage.",
    "stage.identifier": "The identifier of the stage.",
    "service.name": "The name of the service.",
    "service.identifier": "The identifier of the service.",
    "env.name": "The name of the environment.",
    "env.identifier": "The identifier of the environment.",
    "env.type": "Production or PreProduction.",
    "infra.name": "The name of the infrastructure.",
    "infra.identifier": "The identifier of the infrastructure.",
    "infra.region": "The AWS region.",
    "infra.cluster": "The ECS cluster.",
    "infra.connectorRef": "The identifier of the connector.",
    "primary.artifact.image": "The image with its tag.",
    "primary.artifact.imagePath": "The image without its tag.",
    "primary.artifact.tag": "The tag of the image.",
    "execution.id": "The id of the run.",
}
DIGEST: Mapping[str, str] = {
    "primary.artifact.digest": "The digest of the image, where its registry told it.",
    "primary.artifact.imageWithDigest": "The image with its digest, where its registry told it.",
}
# Names available only in a manifest of a kind, during its deployment.
IN_MANIFEST: Mapping[str, Mapping[str, str]] = {
    "EcsServiceDefinition": {
        "targetGroupArn": "Blue/green: the target group that receives the stage traffic.",
        **{
            f"targetGroupArn{number}": f"Blue/green: the same for pair {number} of the step's listeners."
            for number in range(2, LISTENER_PAIRS + 1)
        },
    },
}
