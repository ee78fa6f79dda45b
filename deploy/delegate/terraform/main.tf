terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

data "aws_region" "current" {}

locals {
  environment = {
    HARNESS_ACCOUNT_ID            = var.account_id
    HARNESS_URL                   = var.manager_url
    HARNESS_NAME                  = var.name
    HARNESS_TAGS                  = join(",", var.tags)
    SLIPWAY_DELEGATE_STOP_SECONDS = tostring(var.stop_seconds)
  }
}

resource "aws_cloudwatch_log_group" "delegate" {
  name              = "/ecs/${var.name}"
  retention_in_days = var.log_retention_days
}

# The token is also in the state of Terraform: keep that encrypted and private.
resource "aws_secretsmanager_secret" "token" {
  name = "slipway/delegates/${var.name}"
}

resource "aws_secretsmanager_secret_version" "token" {
  secret_id     = aws_secretsmanager_secret.token.id
  secret_string = var.token
}

data "aws_iam_policy_document" "trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["ecs-tasks.amazonaws.com"]
    }
  }
}

data "aws_partition" "current" {}

resource "aws_iam_role" "execution" {
  name_prefix        = "slipway-delegate-start-"
  assume_role_policy = data.aws_iam_policy_document.trust.json
}

resource "aws_iam_role_policy_attachment" "execution" {
  role       = aws_iam_role.execution.name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/service-role/AmazonECSTaskExecutionRolePolicy"
}

resource "aws_iam_role_policy" "token" {
  name = "delegate-token"
  role = aws_iam_role.execution.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = "secretsmanager:GetSecretValue"
      Resource = aws_secretsmanager_secret.token.arn
    }]
  })
}

resource "aws_iam_role" "task" {
  name_prefix        = "slipway-delegate-"
  assume_role_policy = data.aws_iam_policy_document.trust.json
}

resource "aws_iam_role_policy" "deployments" {
  name   = "deployments"
  role   = aws_iam_role.task.id
  policy = file("${path.module}/policy.json")
}

resource "aws_iam_role_policy_attachment" "further" {
  for_each   = toset(var.policy_arns)
  role       = aws_iam_role.task.name
  policy_arn = each.value
}

resource "aws_ecs_task_definition" "delegate" {
  family                   = "${var.name}-task"
  network_mode             = "awsvpc"
  requires_compatibilities = ["FARGATE"]
  cpu                      = var.cpu
  memory                   = var.memory
  execution_role_arn       = aws_iam_role.execution.arn
  task_role_arn            = aws_iam_role.task.arn

  container_definitions = jsonencode([{
    name        = "harness-delegate"
    image       = var.image
    essential   = true
    stopTimeout = var.stop_seconds
    environment = [for name, value in local.environment : { name = name, value = value } if value != ""]
    secrets     = [{ name = "HARNESS_TOKEN", valueFrom = aws_secretsmanager_secret.token.arn }]
    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = aws_cloudwatch_log_group.delegate.name
        awslogs-region        = data.aws_region.current.name
        awslogs-stream-prefix = "delegate"
      }
    }
  }])
}

resource "aws_ecs_service" "delegate" {
  name            = "${var.name}-service"
  cluster         = var.cluster
  task_definition = aws_ecs_task_definition.delegate.arn
  launch_type     = "FARGATE"
  desired_count   = var.instances

  # A new instance starts before an old one stops.
  deployment_minimum_healthy_percent = 100
  deployment_maximum_percent         = 200

  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  network_configuration {
    subnets          = var.subnet_ids
    security_groups  = var.security_group_ids
    assign_public_ip = var.assign_public_ip
  }

  depends_on = [
    aws_secretsmanager_secret_version.token,
    aws_iam_role_policy_attachment.execution,
    aws_iam_role_policy.token,
  ]
}
