"""Where the load balancers of a blue/green pair lead: how that is read, and what of it fits a pipeline."""
