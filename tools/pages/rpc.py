"""`python -m tools.pages.rpc > docs/reference/rpc.md`: requests and answers, from their table."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from kafka_marshal.rpc.apis import APIS, Api
from kafka_marshal.rpc.codec import ANSWER_BYTES_MAX, REQUEST_BYTES_MAX
from kafka_marshal.rpc.error_codes import MEANINGS
from kafka_marshal.rpc.fields import RpcField, described

PAGE = """\
# Requests and answers of groups

<!-- Printed by `python -m tools.pages.rpc`; do not edit. -->

Members of a group and its controller talk over TCP. Version 0 is the document of Kafka's re-design
for 0.9 to the byte. Version 1 keeps every byte of version 0 and adds fields at the end. A list that
has to say more follows there once again, under its name and `V1`.
The table of this page is the one that the codec (`kafka_marshal.rpc`) walks along.

## Bytes

A frame is an int32 with the size of what follows: at most {request:,} bytes in a request, and
{answer:,} in an answer.
In a request these fields follow, and then those of its table:
`ApiKey int16, Version int16, CorrelationId int64, ClientId string`.
In an answer `Version int16, CorrelationId int64` follow, and then those of its table.

All numbers are big-endian. A *string* is its length in bytes as an int16, then UTF-8. A *list*, in
brackets, is its count as an int32, then each element. A *struct*, in braces, is its fields. There
is no null: a length or count below 0 is malformed, as are bytes that are left over. A *boolean* is
one byte, 0 or 1. A *port* is two bytes without a sign; where the document writes int16, they are
the same bits. An *error code* is an int16 of [the list below](#error-codes).

A request that is malformed is answered 42 (INVALID_REQUEST), by an answer that is otherwise empty.
One of an unknown version is answered 35 (UNSUPPORTED_VERSION), in the highest version. Where the
header cannot be read, or the ApiKey is unknown, the connection is closed.

{apis}

## Error codes

Kafka's numbers, under Kafka's names.

| code | name | meaning |
|---|---|---|
{codes}
"""


def rows(side: str, fields: tuple[RpcField, ...], least: int) -> Iterator[str]:
    """Yield a row of the table for each field."""
    for each in fields:
        version = max(each.since, least)
        yield f"| {side} | {version} | `{each.name}` | `{described(each.type)}` | {each.about} |"


def section(api: Api) -> str:
    """Return what the page writes about one api."""
    least = api.versions[0]
    return "\n".join(
        [
            f"## {api.key}: {api.name}",
            "",
            f"{api.about} To {'any server' if api.server == 'any' else 'the controller'}.",
            "",
            "| in the | from version | field | type | |",
            "|---|---|---|---|---|",
            *rows("request", api.request, least),
            *rows("answer", api.answer, least),
        ]
    )


def page() -> str:
    """Return the whole page."""
    codes = [f"| {code.value} | {code.name} | {meaning} |" for code, meaning in MEANINGS.items()]
    return PAGE.format(
        request=REQUEST_BYTES_MAX,
        answer=ANSWER_BYTES_MAX,
        apis="\n\n".join(map(section, APIS)),
        codes="\n".join(codes),
    )


if __name__ == "__main__":
    sys.stdout.write(page())
