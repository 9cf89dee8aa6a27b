"""`Marshal.tla` over the reducer and the machines: one log, one claim, several instances.

`world` reads a model's bounds from TLC itself, `instance` is one process of `Marshal.tla` over
`kafka_marshal.machines.consumer.consumer`. `records` and `alone` go without an environment: any
record after any other, at the reducer, or at one machine.
"""
