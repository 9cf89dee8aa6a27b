"""`FairShare.tla` over the rules of `kafka_marshal.machines.share.rules`."""
