"""Pure decisions: functions of state, event and time."""
