"""Workflows run on this machine by an interpreter, with stand-ins for what it cannot have."""
