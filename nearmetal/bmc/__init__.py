"""A Redfish BMC for tests and for the virtual rack: a model of one machine, and the server that speaks for it."""
