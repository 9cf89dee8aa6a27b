"""The client's part of `make demo`: three consumers on a real broker, one killed, one stalled.

Returns the folder of a replay of what happened, as the coordination topic tells it.
"""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tools.demo.worker import BEAT_S

from kafka_marshal.testing import QUICK, Broker

TOPIC, GROUP, PARTITIONS = "orders", "billing", 6
WORKER = Path(__file__).with_name("worker.py")


class Orders:
    """Somebody who orders without end, until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        self.count = 0
        self._stopped = threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
        self._thread = threading.Thread(target=self._order)
        self._thread.start()

    def _order(self) -> None:
        while not self._stopped.wait(0.01):
            for _ in range(4):
                partition = self.count % PARTITIONS
                self._producer.produce(TOPIC, b"order %d" % self.count, partition=partition)
                self.count += 1
            self._producer.poll(0)

    def stop(self) -> None:
        """No more; all of them are there."""
        self._stopped.set()
        self._thread.join()
        self._producer.flush(30)


def run(marshal: Callable[..., None], out: Path) -> None:
    """Tell the story; `marshal` runs a command as a user would."""
    with Broker(java_options=QUICK) as broker:
        bootstrap = broker.bootstrap
        print(f"  a Kafka broker serves at {bootstrap}")
        marshal("init", "--bootstrap", bootstrap, "--partitions", "4")
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
            future.result(30)
        orders = Orders(bootstrap)
        workers = {
            name: subprocess.Popen([sys.executable, WORKER, bootstrap, GROUP, name, TOPIC])
            for name in ("ann", "bob", "cid")
        }
        try:
            time.sleep(6)
            marshal("ls", GROUP, "--bootstrap", bootstrap, "--heartbeat-interval", f"{BEAT_S:g}")
            print("\n  bob is killed (kill -9); what he owned is stale after two intervals")
            workers["bob"].kill()
            time.sleep(3.5 * BEAT_S)
            print("\n  cid stands still (SIGSTOP) for three intervals, and wakes again")
            workers["cid"].send_signal(signal.SIGSTOP)
            time.sleep(3 * BEAT_S)
            workers["cid"].send_signal(signal.SIGCONT)
            time.sleep(2 * BEAT_S)
            print("\n  nobody orders any more; when all is consumed, everybody ends in order")
            orders.stop()
            time.sleep(3)
            marshal("ls", GROUP, "--bootstrap", bootstrap, "--heartbeat-interval", f"{BEAT_S:g}")
        finally:
            orders.stop()
            for worker in workers.values():
                worker.send_signal(signal.SIGCONT)
                worker.terminate()
            for worker in workers.values():
                worker.wait(60)
        print(f"\n  {orders.count} orders were made. What the log says of that:")
        marshal(
            "replay", f"kafka://{bootstrap}/__marshal",
            "--heartbeat-interval", f"{BEAT_S:g}", "--out", str(out), found_something=True,
        )  # fmt: skip
