"""Importance weights: weighing, effective size, truncation, resampling, tails, log Z. All of it about `log_weights`."""
