"""Where the paper says more than holds: each point with a small computation that shows it."""
