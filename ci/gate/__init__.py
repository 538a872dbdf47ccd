"""What results mean: policy, comparison, verdicts.  Pure functions, no I/O."""
