"""The matrix of lanes and suites, the conditions of a machine, and running suites on it."""
