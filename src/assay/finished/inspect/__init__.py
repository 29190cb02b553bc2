"""Logs of inspect, read and written."""
