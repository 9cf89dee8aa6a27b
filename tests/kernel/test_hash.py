"""Marshal promises that the kernel numbers any names, also ids chosen to fall into one slot."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from kafka_marshal.core.state import ClaimKey
from kafka_marshal.kernel.columns import NameCodes
from kafka_marshal.kernel.parsing import hashed

PAIRS = 10
NO_SALT = np.zeros(2, np.uint64)


def colliding() -> list[bytes]:
    """Ids that a hash of multiplications takes for one, whatever its secret.

    The topmost bit of a word stays the topmost one under every odd factor.
    """
    ids = []
    for number in range(1 << PAIRS):
        name = bytearray(b"abcdefg0" * (2 * PAIRS))
        for pair in range(PAIRS):
            for place in (7, 11, 15) if number >> pair & 1 else ():
                name[16 * pair + place] ^= 0x80
        ids.append(bytes(name))
    return ids


def hash_of(text: bytes, salt: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> int:
    data = np.frombuffer(text or b"?", np.uint8)
    return int(hashed(data, np.uint64(0), np.uint64(len(text)), salt))


def test_ids_that_were_chosen_to_collide_do_not() -> None:
    names = NameCodes()
    values = [b"ClaimingPartition/1/5/%b/c/g/t/0" % name for name in colliding()]
    names.decoded(pa.array(values, pa.binary()), None)
    assert len(names.table) == len(values)
    assert len(np.unique(names._addresses.hashes[: len(values)])) == len(values)


def test_codes_do_not_depend_on_the_salt() -> None:
    values = pa.array([b"ClaimingPartition/1/5/i%d/c/g/t/0" % (n % 700) for n in range(2000)])
    one, other = NameCodes(), NameCodes()
    assert list(one._salt) != list(other._salt)
    columns = [names.decoded(values, None) for names in (one, other)]
    assert columns[0].address.tolist() == columns[1].address.tolist()
    assert one.table.tolist() == other.table.tolist()


def test_the_names_of_any_number_of_claims_are_split_as_python_splits_them() -> None:
    odd = ["01", "+1", "", " 1", str(2**31), "9" * 19, "x", "0"]
    texts = [
        f"i{n % 7}/c{n % 5}/{'' if n % 11 == 0 else 'g'}/{'' if n % 13 == 0 else f't{n // 32}'}/"
        f"{odd[n // 17 % len(odd)] if n % 17 == 0 else n % 32}"
        for n in range(10_000)
    ]
    names = NameCodes()
    values = [f"Heartbeat/1/5/{text}/9".encode() for text in texts]
    for begin in range(0, len(values), 4_500):  # no step of the kernel ends there
        names.decoded(pa.array(values[begin : begin + 4_500], pa.binary()), None)
    keys, told = names.claim_keys(), {}
    instances, clients, groups = (
        each.names() for each in (names.instances, names.clients, names.groups)
    )
    known = names._addresses.names()
    assert set(known) >= set(texts)
    for text, (instance, client, group, claim) in zip(known, names.table.tolist(), strict=True):
        *said, topic, partition = text.split("/")
        assert said == [instances[instance], clients[client], groups[group]]
        ordinary = partition in map(str, range(32))
        told[text] = ClaimKey(said[2], topic, int(partition)) if ordinary else None
        assert told[text] == (keys[claim] if claim >= 0 else None)
        assert claim < 0 or names.group_of(claim) == group
    assert keys == [*dict.fromkeys(key for key in told.values() if key is not None)]
    assert [names.claim(key) for key in keys] == [*range(len(keys))]
    assert names.known_claim(ClaimKey("g", "none", 0)) == -1


@pytest.mark.skipif(sys.hash_info.algorithm != "siphash13", reason="Python hashes otherwise")
def test_the_hash_is_siphash_as_python_has_it() -> None:
    texts = [bytes(range(length)) for length in (1, 7, 8, 9, 16, 40)]
    code = f"print([hash(text) % 2**64 for text in {texts!r}])"
    ran = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": "0"}, capture_output=True, check=True
    )
    assert ran.stdout.decode().strip() == str([hash_of(text, NO_SALT) for text in texts])
