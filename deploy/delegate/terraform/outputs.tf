output "service" {
  description = "ARN of the ECS service."
  value       = aws_ecs_service.delegate.id
}

output "task_role_arn" {
  description = "ARN of the task role, whose permissions the delegate has."
  value       = aws_iam_role.task.arn
}

output "log_group" {
  description = "Name of the log group."
  value       = aws_cloudwatch_log_group.delegate.name
}
