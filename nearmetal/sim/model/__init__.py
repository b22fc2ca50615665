"""How a simulated host behaves: functions on its state, a plain JSON-able dictionary. No files, no clock of their own."""
