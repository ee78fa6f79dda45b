"""Journal of the calls that executions make, with the callers and the access behind them."""
