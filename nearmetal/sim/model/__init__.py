"""How a simulated host behaves: functions on its state, a plain dictionary. No files, no clock of their own."""
