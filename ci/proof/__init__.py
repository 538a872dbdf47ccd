"""Damages that the gate must notice: a small green checkout, and one way to break it at a time."""
