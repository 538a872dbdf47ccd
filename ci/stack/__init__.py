"""Pinned wheel -> arms: fetch and verify, apply the series strictly, hash what came out."""
