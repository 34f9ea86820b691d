"""Horizon Imagination."""
