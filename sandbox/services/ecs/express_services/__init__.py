"""Express services of ECS, whose load balancer, auto scaling and deployments ECS manages."""
