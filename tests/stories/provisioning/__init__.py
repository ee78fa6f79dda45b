"""Infrastructure that a stage makes before it deploys there."""
