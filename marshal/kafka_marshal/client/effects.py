"""What a machine asks of whoever runs it.

An effect is a value; carrying it out, and its order, is the duty of the runtime. Effects of one
call are carried out in their order.
"""

from __future__ import annotations

from attrs import frozen

from kafka_marshal.core.messages import Headers, Message


@frozen
class Send:
    """Append this to the coordination topic.

    Records of one instance must arrive in the order in which they were sent (an idempotent
    producer), unless both ends write headers. That it was appended means nothing yet: the machine
    acts on what it reads back.
    """

    message: Message
    headers: Headers
