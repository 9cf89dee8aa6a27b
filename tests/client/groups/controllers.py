"""Controllers on a real broker, in a thread of a test or in processes of their own."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.environment import REAL, Deadline
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.client.groups.connection import Controllers
from kafka_marshal.client.groups.controller import ControllerOptions, ControllerService
from kafka_marshal.client.observe.controller_observers import ControllerObserver
from kafka_marshal.rpc.codec import RpcAnswer
from kafka_marshal.rpc.error_codes import ErrorCode
from kafka_marshal.testing import Broker
from tests.client.hands import new_name

PATIENT_S = 30.0


def patiently() -> Deadline:
    return REAL.deadline(PATIENT_S)


class Fleet:
    """A log of groups, a coordination topic, and a topic to consume."""

    def __init__(self, broker: Broker, partitions: int = 4) -> None:
        self.bootstrap = broker.bootstrap
        self.groups_topic, self.coordination = new_name("groups"), new_name("marshal")
        self.cluster = ClusterClient(settings_of(broker.bootstrap))
        self.topic = new_name("events")
        self.cluster.create_topic(self.topic, partitions, 1, {})

    @contextmanager
    def controller(self, *observers: ControllerObserver, **options: Any) -> Iterator[str]:
        """One in a thread; its address."""
        stop, listening = threading.Event(), queue.SimpleQueue[str]()
        running = ControllerService(
            settings_of(self.bootstrap),
            ControllerOptions(
                topic=self.groups_topic,
                coordination_topic=self.coordination,
                **{"port": 0, **options},
            ),
            observers,
        )
        ended: list[BaseException | None] = []

        def run() -> None:
            try:
                running.run(stop.is_set, lambda host, port: listening.put(f"{host}:{port}"))
                ended.append(None)
            except BaseException as error:
                ended.append(error)
                listening.put("")

        thread = threading.Thread(target=run)
        thread.start()
        try:
            address = listening.get(timeout=PATIENT_S)
            assert address, ended
            yield address
        finally:
            stop.set()
            thread.join()
        assert ended == [None]

    @contextmanager
    def process(self, listen: str = "127.0.0.1:0") -> Iterator[tuple[subprocess.Popen[str], str]]:
        """One in a process of its own, and its address."""
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "kafka_marshal.cli", "controller"),
                *("--bootstrap", self.bootstrap, "--listen", listen),
                *("--topic", self.groups_topic, "--coordination-topic", self.coordination),
            ],
            stdout=subprocess.PIPE,
            env=os.environ | {"MARSHAL_CONFIG": os.devnull},
            text=True,
        )
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address
            yield process, address
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


class Scripted:
    """A member that says what a test tells it to say."""

    def __init__(self, controllers: Controllers, group: str, name: str, topic: str) -> None:
        self.controllers, self.group, self.name, self.topic = controllers, group, name, topic
        self.generation = -1
        self.own: list[dict[str, Any]] = []

    def _asks(self, api: str, **body: Any) -> RpcAnswer:
        body = {"ConsumerGroup": self.group, "ConsumerId": self.name, **body}
        while True:
            answer, _ = self.controllers.asked(api, self.group, body, patiently())
            if answer.code is not ErrorCode.FENCED_INSTANCE_ID:
                return answer
            self.controllers.close()  # it is of before the controller began to serve

    def registers(self) -> None:
        """Until there is nothing left to hear."""
        while True:
            held = [{"Topic": one["Topic"], "Partition": one["Partition"]} for one in self.own]
            answer = self._asks(
                "RegisterConsumer",
                Generation=self.generation,
                Topics=[self.topic],
                Static=[],
                Held=held,
                Positions=[],
            )
            assert answer.code == 0, answer
            self.generation = answer.body["Generation"]  # type: ignore[assignment]
            self.own = answer.body["PartitionsToOwnV1"]  # type: ignore[assignment]
            if self.own and self.beats() == 0:
                return

    def beats(self) -> int:
        """The code of a heartbeat."""
        answer = self._asks(
            "Heartbeat", SessionTimeout=0, Generation=self.generation, MaxWaitMs=200
        )
        return answer.code

    def commits(self, offset: int) -> set[int]:
        """Commit this of each partition that it owns; the codes."""
        at = [{**one, "Offset": offset} for one in self.own]
        answer = self._asks("CommitOffsets", Positions=[], PositionsV1=at)
        assert answer.code == 0, answer
        codes: list[Any] = answer.body["PositionsV1"]  # type: ignore[assignment]
        return {each["ErrorCode"] for each in codes}

    def leaves(self) -> None:
        """With nothing to commit."""
        assert self._asks("DeregisterConsumer", Positions=[]).code == 0


def create(controllers: Controllers, group: str, topic: str) -> None:
    body = {
        "ConsumerGroup": group,
        "SessionTimeout": 10_000,
        "Topics": [topic],
        "Ephemeral": 0,
        "Rebalance": "incremental",
        "Strategy": "sticky",
    }
    answer, _ = controllers.asked_any("CreateGroup", body, patiently())
    assert answer.code == 0, answer
