"""nearmetal: from factory settings to virtual machines as fast as bare metal."""

__version__ = "0.1.0"
