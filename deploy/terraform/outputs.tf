output "url" {
  value       = aws_cloudformation_stack.slipway.outputs["Url"]
  description = "Where people sign in"
}

output "load_balancer_dns_name" {
  value       = aws_cloudformation_stack.slipway.outputs["LoadBalancerDnsName"]
  description = "Target of the DNS record, unless the stack created it"
}

output "task_role_arn" {
  value       = aws_cloudformation_stack.slipway.outputs["TaskRoleArn"]
  description = "Role that the roles in DeploymentRoleArns trust"
}

output "first_administrator" {
  value       = aws_cloudformation_stack.slipway.outputs["FirstAdministrator"]
  description = "Prints the first administrator's password and an API key, once"
}

output "doctor" {
  value       = aws_cloudformation_stack.slipway.outputs["Doctor"]
  description = "Checks the installation"
}
