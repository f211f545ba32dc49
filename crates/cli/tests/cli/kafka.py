"""A Kafka cluster for tests, in a process of its own, and a producer that is not ours.

The cluster is librdkafka's mock; or, if its program is the argument, a tansu that keeps its records on disk.
Commands come as lines of JSON on standard input; each is answered by one line on standard output. When standard input
ends, so does the cluster.
"""

import base64
import ctypes
import itertools
import json
import os
import pathlib
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

LARGEST = 20_000_000
TOPIC_AUTHORIZATION_FAILED = 29


def encoded(data):
    return None if data is None else base64.b64encode(data).decode()


def decoded(text):
    return None if text is None else base64.b64decode(text)


class Mock:
    """librdkafka's mock, by its C interface: Python's cannot deny a topic or take a broker away."""

    BROKER = 1

    def __init__(self):
        package = pathlib.Path(confluent_kafka.__file__).parent
        places = [package.parent / "confluent_kafka.libs", package / ".dylibs"]
        found = next(file for place in places for file in place.glob("librdkafka*"))
        self.library = ctypes.CDLL(str(found))
        self.library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
            getattr(self.library, name).restype = ctypes.c_void_p
        why = ctypes.create_string_buffer(512)
        settings = ctypes.c_void_p(self.library.rd_kafka_conf_new())
        self.library.rd_kafka_conf_set(settings, b"log_level", b"0", why, ctypes.c_size_t(512))
        client = self.library.rd_kafka_new(0, settings, why, ctypes.c_size_t(512))
        if not client:
            raise RuntimeError(why.value.decode())
        client = ctypes.c_void_p(client)
        self.cluster = ctypes.c_void_p(self.library.rd_kafka_mock_cluster_new(client, 1))

    def address(self):
        return self.library.rd_kafka_mock_cluster_bootstraps(self.cluster).decode()

    def create(self, topic, partitions):
        """Of each partition the newest five megabytes are kept."""
        self.call("topic_create", topic.encode(), partitions, 1)

    def deny(self, topic, is_denied):
        error = TOPIC_AUTHORIZATION_FAILED if is_denied else 0
        self.library.rd_kafka_mock_topic_set_error(self.cluster, topic.encode(), error)

    def away(self, is_away):
        """With every connection; it comes back with its records, which are in memory."""
        self.call("broker_set_down" if is_away else "broker_set_up", self.BROKER)

    def call(self, name, *arguments):
        failed = getattr(self.library, f"rd_kafka_mock_{name}")(self.cluster, *arguments)
        if failed:
            raise RuntimeError(f"{name}: {failed}")

    def end(self):
        pass


class Tansu:
    """A broker that keeps its records in SQLite, and is away by SIGKILL."""

    FILE = "broker.db"
    PATIENCE_SECS = 30

    def __init__(self, program):
        self.program = str(pathlib.Path(program).resolve())
        self.folder = tempfile.mkdtemp(prefix="tansu-")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.start()
        # Without it every record that is read looks at every header there is.
        with sqlite3.connect(pathlib.Path(self.folder) / self.FILE, timeout=30) as database:
            database.execute("CREATE INDEX header_of_record ON header (topition, offset_id)")
        database.close()

    def start(self):
        url = f"tcp://{self.address()}"
        storage = f"sqlite:///{self.FILE}"
        arguments = ["broker", "--silent", "--listener-url", url, "--advertised-listener-url", url]
        with open(pathlib.Path(self.folder) / "log", "ab") as log:
            self.process = subprocess.Popen(
                [self.program, *arguments, "--storage-engine", storage],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until = time.monotonic() + self.PATIENCE_SECS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"tansu does not start: {self.log()}")
                time.sleep(0.02)

    def log(self):
        return (pathlib.Path(self.folder) / "log").read_text(errors="replace")[-2000:]

    def address(self):
        return f"127.0.0.1:{self.port}"

    def create(self, topic, partitions):
        admin = AdminClient({"bootstrap.servers": self.address(), "log_level": 0})
        wanted = NewTopic(topic, num_partitions=partitions, replication_factor=1)
        admin.create_topics([wanted])[topic].result(self.PATIENCE_SECS)

    def away(self, is_away):
        if is_away:
            self.process.kill()
            self.process.wait()
        elif self.process.poll() is not None:
            self.start()

    def end(self):
        self.away(True)
        shutil.rmtree(self.folder, ignore_errors=True)


class Cluster:
    def __init__(self, broker):
        self.broker = broker
        self.files = {}
        self.address = broker.address()
        self.producer = Producer(
            {
                "bootstrap.servers": self.address,
                "message.max.bytes": LARGEST,
                "linger.ms": 5,
                "queue.buffering.max.messages": 1_000_000,
                "log_level": 0,
            }
        )

    def start(self):
        return {"broker": self.address}

    def create(self, topic, partitions):
        self.broker.create(topic, partitions)
        return {}

    def deny(self, topic, is_denied):
        """Whether clients have no right to a topic."""
        self.broker.deny(topic, is_denied)
        return {}

    def away(self, is_away):
        """Takes the broker away with every connection to it, or brings it back with its records."""
        self.broker.away(is_away)
        return {}

    def produce(self, records):
        failed = []

        def delivered(error, _):
            if error is not None:
                failed.append(str(error))

        for record in records:
            place = {} if record.get("partition") is None else {"partition": record["partition"]}
            self.producer.produce(
                record["topic"],
                value=decoded(record.get("value")),
                key=record.get("key"),
                headers=list(record.get("headers", {}).items()),
                on_delivery=delivered,
                **place,
            )
            self.producer.poll(0)
        self.producer.flush(60)
        return {"failed": failed}

    def produce_lines(self, topic, path, count, partitions):
        """The next lines of a file, one to each partition in turn."""
        if path not in self.files:
            self.files[path] = enumerate(open(path, "rb"))
        for number, line in itertools.islice(self.files[path], count):
            self.producer.produce(topic, value=line.rstrip(), partition=number % partitions)
            self.producer.poll(0)
        return {"left": self.producer.flush(60)}

    def consumer(self, group):
        return Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": group,
                "enable.auto.commit": False,
                "fetch.max.bytes": LARGEST,
                "receive.message.max.bytes": 2 * LARGEST,
                "log_level": 0,
            }
        )

    def partitions(self, consumer, topic):
        return sorted(consumer.list_topics(topic, timeout=30).topics[topic].partitions)

    def ends(self, topic):
        """Where each partition ends."""
        consumer = self.consumer("judge")
        places = [TopicPartition(topic, number) for number in self.partitions(consumer, topic)]
        ends = [consumer.get_watermark_offsets(place, timeout=30)[1] for place in places]
        consumer.close()
        return {"ends": ends}

    def committed(self, group, topic):
        """What a group has committed for each partition; negative if nothing."""
        consumer = self.consumer(group)
        places = [TopicPartition(topic, number) for number in self.partitions(consumer, topic)]
        found = consumer.committed(places, timeout=30)
        consumer.close()
        return {"offsets": [place.offset for place in found]}

    def commit(self, group, topic, partition, offset):
        """As an application or a person might, without joining the group."""
        consumer = self.consumer(group)
        place = TopicPartition(topic, partition, offset)
        consumer.commit(offsets=[place], asynchronous=False)
        consumer.close()
        return {}

    def read(self, topic):
        """Everything that is in a topic."""
        consumer = self.consumer("judge")
        left, wanted = {}, []
        for number in self.partitions(consumer, topic):
            place = TopicPartition(topic, number)
            low, high = consumer.get_watermark_offsets(place, timeout=30)
            if high > low:
                left[number] = high
                wanted.append(TopicPartition(topic, number, OFFSET_BEGINNING))
        consumer.assign(wanted)
        records = []
        while left:
            message = consumer.poll(30)
            if message is None:
                raise TimeoutError(f"topic {topic} could not be read")
            if message.error():
                continue
            headers = {name: value.decode() for name, value in message.headers() or []}
            records.append(
                {
                    "partition": message.partition(),
                    "offset": message.offset(),
                    "key": encoded(message.key()),
                    "value": encoded(message.value()),
                    "headers": headers,
                }
            )
            if message.offset() + 1 >= left.get(message.partition(), 0):
                left.pop(message.partition(), None)
        consumer.close()
        return {"records": records}


def main():
    broker = Tansu(sys.argv[1]) if len(sys.argv) > 1 else Mock()
    try:
        cluster = Cluster(broker)
        for line in sys.stdin:
            command = json.loads(line)
            answer = getattr(cluster, command.pop("do"))(**command)
            print(json.dumps(answer), flush=True)
    finally:
        broker.end()


main()
# Clients that still wait for something do not hold this up.
os._exit(0)
