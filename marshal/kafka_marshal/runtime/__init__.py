"""The client on real Kafka: the one room that knows a client of Kafka, threads and clocks.

It carries out what the machines of `client` ask for, and tells them what happened; it decides
nothing. `errors` and `settings` are how to connect and what to say when that fails. `reader` reads
a topic, `log` appends to one. `data` reads what is consumed, `engine` feeds an instance's machine,
`consumer` is what an application sees.

Nothing is imported here: `errors` must be there without confluent_kafka.
"""
