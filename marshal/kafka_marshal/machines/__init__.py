"""State machines without IO: what consumers and administrators may do, and which effects follow.

Inputs are records and `now_ms`; outputs are effects. There are no threads here, no Kafka and no
clock.
"""
