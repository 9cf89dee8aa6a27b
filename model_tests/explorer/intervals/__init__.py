"""`Interval.tla` over the reducer and `kafka_marshal.machines.consumer.intervals`."""
