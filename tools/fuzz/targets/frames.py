"""Frames of requests and answers, as a port would get them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tools.fuzz.oracle import Finding, differs, refused_by
from tools.fuzz.target import Target

from kafka_marshal.rpc.apis import APIS
from kafka_marshal.rpc.codec import (
    Frames,
    Malformed,
    RefusedRequest,
    RpcRequest,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
    refusal,
)
from kafka_marshal.rpc.error_codes import ErrorCode
from kafka_marshal.rpc.fields import Array, Body, Number, RpcField, Struct, Type, Value


def ordinary(type_: Type) -> Value:
    """A value that could well be there."""
    match type_:
        case Number():
            return min(type_.greatest, 7) if type_ is not Number.ERROR_CODE else 7
        case Array():
            return [ordinary(type_.of)] * 2
        case Struct():
            return _body(type_.fields)
        case _:
            return "orders"


def _body(fields: tuple[RpcField, ...]) -> Body:
    return {each.name: ordinary(each.type) for each in fields}


def seeds() -> Iterator[bytes]:
    """A request of each api and version, and an answer behind it."""
    for api in APIS:
        for version in api.versions:
            fields = tuple(each for each in api.request if each.since <= version)
            yield encode_request(RpcRequest(api, version, 5, "c", _body(fields))) + encode_answer(
                refusal(api, version, 5, ErrorCode.NONE)
            )


def check_frames(data: bytes, _: Path) -> None:
    """Each frame is a request or refused, and for each api an answer or malformed."""
    with refused_by(Malformed, naming="malformed "):
        for message in Frames().fed(data):
            _check_request(message)
            for api in APIS:
                with refused_by(Malformed, naming="malformed "):
                    answer = decode_answer(api, message)
                    if encode_answer(answer)[4:] != message:
                        raise differs("an answer's bytes", encode_answer(answer), message)


def _check_request(message: bytes) -> None:
    with refused_by(Malformed, naming="malformed "):
        try:
            request = decode_request(message)
        except RefusedRequest as refused:
            # What is refused is answered, and the answer can be read.
            again = decode_answer(refused.answer.api, encode_answer(refused.answer)[4:])
            if again.code is not refused.code:
                raise Finding("differs", f"the code of {again!r:.200}") from None
            raise
        if encode_request(request)[4:] != message:
            raise differs("a request's bytes", encode_request(request), message)


TARGETS = (Target(name="frames", rooms=("kafka_marshal.rpc",), seeds=seeds, check=check_frames),)
