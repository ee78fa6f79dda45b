# One variable for each parameter of the template; the template checks values.

variable "name" {
  type        = string
  default     = "slipway"
  description = "Name of the stack, and of what it makes"
}

variable "image" {
  type        = string
  description = "Image of Slipway with its version, such as 123456789012.dkr.ecr.eu-west-1.amazonaws.com/slipway:0.1.0"
}

variable "delegate_image" {
  type        = string
  description = "Image that new delegates get, with its version"
}

variable "domain_name" {
  type        = string
  description = "Host name that people open, such as slipway.example.com"
}

variable "certificate_arn" {
  type        = string
  description = "ARN of the ACM certificate for the host name, in this region"
}

variable "hosted_zone_id" {
  type        = string
  default     = ""
  description = "Route 53 hosted zone that gets a record for the host name. Empty, you create the record yourself."
}

variable "allowed_cidr" {
  type        = string
  default     = "0.0.0.0/0"
  description = "Addresses that may open Slipway; delegates too"
}

variable "vpc_id" {
  type        = string
  description = "VPC for everything"
}

variable "public_subnet_ids" {
  type        = list(string)
  description = "Two or more subnets of the load balancer; public for access from the internet"
}

variable "public_subnet_cidrs" {
  type        = list(string)
  description = "CIDR blocks of these subnets, such as 10.0.0.0/24,10.0.1.0/24. Slipway believes what load balancers there say of a caller."
}

variable "private_subnet_ids" {
  type        = list(string)
  description = "Two or more subnets with outbound access (NAT) for tasks, database and cache"
}

variable "web_tasks" {
  type        = number
  default     = 2
  description = "Web tasks at least"
}

variable "max_web_tasks" {
  type        = number
  default     = 6
  description = "Web tasks at most"
}

variable "worker_tasks" {
  type        = number
  default     = 2
  description = "Worker tasks at least"
}

variable "max_worker_tasks" {
  type        = number
  default     = 6
  description = "Worker tasks at most"
}

variable "database_class" {
  type        = string
  default     = "db.t4g.medium"
  description = "Instance class of the database"
}

variable "database_standby" {
  type        = bool
  default     = true
  description = "Whether the database has a standby in another availability zone"
}

variable "cache_node_type" {
  type        = string
  default     = "cache.t4g.small"
  description = "Node type of Valkey"
}

variable "deployment_role_arns" {
  type        = list(string)
  default     = []
  description = "Roles that connectors assume without an access key, such as arn:aws:iam::*:role/slipway-deploy. Empty for delegates only."
}
