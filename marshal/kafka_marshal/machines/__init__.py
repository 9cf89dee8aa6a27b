"""Machines without IO: what a consumer or an administrator may do, and what follows from it.

Records and `now_ms` come in, effects go out. There are no threads here, no Kafka and no clock.
"""
