"""Figures of a benchmark run: every side of every host, and their ratios."""

from __future__ import annotations
