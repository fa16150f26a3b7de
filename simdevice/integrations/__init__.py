"""Frameworks that choose among the devices they know. `import simdevice.integrations.NAME` lets one choose simacc, and
`simdevice.integrations.NAME.undo()` puts its classes back."""
