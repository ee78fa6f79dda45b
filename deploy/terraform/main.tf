terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

# The same stack as by CloudFormation: one description of Slipway, so that both stay equal.
resource "aws_cloudformation_stack" "slipway" {
  name               = var.name
  template_body      = file("${path.module}/../cloudformation/slipway.yaml")
  capabilities       = ["CAPABILITY_IAM"]
  timeout_in_minutes = 60

  parameters = {
    Image              = var.image
    DelegateImage      = var.delegate_image
    DomainName         = var.domain_name
    CertificateArn     = var.certificate_arn
    HostedZoneId       = var.hosted_zone_id
    AllowedCidr        = var.allowed_cidr
    VpcId              = var.vpc_id
    PublicSubnetIds    = join(",", var.public_subnet_ids)
    PublicSubnetCidrs  = join(",", var.public_subnet_cidrs)
    PrivateSubnetIds   = join(",", var.private_subnet_ids)
    WebTasks           = tostring(var.web_tasks)
    MaxWebTasks        = tostring(var.max_web_tasks)
    WorkerTasks        = tostring(var.worker_tasks)
    MaxWorkerTasks     = tostring(var.max_worker_tasks)
    DatabaseClass      = var.database_class
    DatabaseStandby    = tostring(var.database_standby)
    CacheNodeType      = var.cache_node_type
    DeploymentRoleArns = join(",", var.deployment_role_arns)
  }
}
