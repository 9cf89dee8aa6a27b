"""State machines without IO: what consumers and administrators may do, and which effects follow.

Records and `now_ms` come in, effects go out. There are no threads here, no Kafka and no clock.
"""
