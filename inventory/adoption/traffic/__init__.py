"""Traffic of blue/green pairs: load balancer reads, and the listener rules that match."""
