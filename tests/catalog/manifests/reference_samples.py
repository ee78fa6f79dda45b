"""The reference's samples (R172-R174), corrected: indented, no key twice, placeholders filled in."""

TASK_DEFINITION = """\
ipcMode:
executionRoleArn: arn:aws:iam::123456789012:role/ecsTaskExecutionRole
containerDefinitions:
- dnsSearchDomains:
  environmentFiles:
  entryPoint:
  portMappings:
  - hostPort: 80
    protocol: tcp
    containerPort: 80
  command:
  linuxParameters:
  cpu: 0
  environment: []
  resourceRequirements:
  ulimits:
  dnsServers:
  mountPoints: []
  workingDirectory:
  secrets:
  dockerSecurityOptions:
  memory:
  memoryReservation: 128
  volumesFrom: []
  stopTimeout:
  image: <+primary.artifact.image>
  startTimeout:
  firelensConfiguration:
  dependsOn:
  disableNetworking:
  interactive:
  healthCheck:
  essential: true
  links:
  hostname:
  extraHosts:
  pseudoTerminal:
  user:
  readonlyRootFilesystem:
  dockerLabels:
  systemControls:
  privileged:
  name: nginx
placementConstraints: []
memory: '512'
taskRoleArn: arn:aws:iam::123456789012:role/ecsTaskExecutionRole
family: fargate-task-definition
pidMode:
requiresCompatibilities:
- FARGATE
networkMode: awsvpc
runtimePlatform:
cpu: '256'
inferenceAccelerators:
proxyConfiguration:
volumes: []
"""

SERVICE_DEFINITION = """\
launchType: FARGATE
serviceName: myapp
desiredCount: 1
networkConfiguration:
  awsvpcConfiguration:
    securityGroups:
      - sg-0123456789abcdef0
    subnets:
      - subnet-0123456789abcdef0
    assignPublicIp: ENABLED
deploymentConfiguration:
  maximumPercent: 200
  minimumHealthyPercent: 100
"""

# As the reference has it: JSON, except that a quote is missing around myapp (T09).
BROKEN_JSON_SERVICE_DEFINITION = """\
{
\t"launchType": "FARGATE",
\t"serviceName": myapp,
\t"desiredCount": 1,
\t"networkConfiguration": {
\t\t"awsvpcConfiguration": {
\t\t\t"securityGroups": ["sg-0123456789abcdef0"],
\t\t\t"subnets": ["subnet-0123456789abcdef0"],
\t\t\t"assignPublicIp": "ENABLED"
\t\t}
\t},
\t"deploymentConfiguration": {"maximumPercent": 100, "minimumHealthyPercent": 0}
}
"""

SCALABLE_TARGET = """\
serviceNamespace: ecs
scalableDimension: ecs:service:DesiredCount
minCapacity: 1
maxCapacity: 3
"""

SCALING_POLICY = """\
scalableDimension: ecs:service:DesiredCount
serviceNamespace: ecs
policyName: P1
policyType: TargetTrackingScaling
targetTrackingScalingPolicyConfiguration:
  targetValue: 60
  predefinedMetricSpecification:
    predefinedMetricType: ECSServiceAverageCPUUtilization
  scaleOutCooldown: 300
  scaleInCooldown: 300
"""
