variable "name" {
  type        = string
  description = "Name of the delegate: up to 63 letters, digits and hyphens."

  validation {
    condition     = can(regex("^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$", var.name))
    error_message = "Use up to 63 letters, digits and hyphens; begin and end with a letter or digit."
  }
}

variable "account_id" {
  type        = string
  description = "Account ID of Slipway, as the page New delegate shows it."
}

variable "token" {
  type        = string
  sensitive   = true
  description = "A delegate token."
}

variable "manager_url" {
  type        = string
  description = "URL of Slipway, such as https://slipway.example.com."
}

variable "image" {
  type        = string
  description = "Image with a version or a digest, in a registry that the tasks reach."

  validation {
    condition     = can(regex("/.*(:[^/]*[0-9]|@sha256:)", var.image))
    error_message = "Name a registry, and a tag with a version or a digest."
  }
}

variable "cluster" {
  type        = string
  description = "Name or ARN of the ECS cluster."
}

variable "subnet_ids" {
  type        = list(string)
  description = "Subnets in two Availability Zones, with a route to the internet or to the endpoints of AWS."
}

variable "security_group_ids" {
  type        = list(string)
  description = "Security groups that allow outbound HTTPS."
}

variable "assign_public_ip" {
  type        = bool
  default     = false
  description = "Whether tasks get a public IP, for public subnets."
}

variable "instances" {
  type        = number
  default     = 2
  description = "Instances of the delegate."
}

variable "cpu" {
  type        = number
  default     = 512
  description = "CPU units of an instance; 1024 are one vCPU."
}

variable "memory" {
  type        = number
  default     = 2048
  description = "Memory of an instance in MiB."
}

variable "stop_seconds" {
  type        = number
  default     = 120
  description = "Seconds that an instance has to finish its tasks; 120 at most on Fargate."
}

variable "tags" {
  type        = list(string)
  default     = []
  description = "Tags by which connectors and steps select the delegate."
}

variable "policy_arns" {
  type        = list(string)
  default     = []
  description = "Further policies of the task role, such as those for blue/green deployments."
}

variable "log_retention_days" {
  type        = number
  default     = 30
  description = "Days to keep the log."
}
