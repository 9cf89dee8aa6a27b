"""The client on real Kafka: the package that knows Kafka clients, threads and clocks.

It carries out what `kafka_marshal.machines` asks for, and says what happened; it decides nothing.
`connect` speaks to Kafka, `fetch` reads what is consumed, `coordinate` feeds an instance's machine,
`process` handles messages, `observe` says what happens, and `api` is what an application sees.
"""

import kafka_marshal.runtime  # noqa: F401  # old names of modules
