"""A Kafka cluster for tests: librdkafka's mock, in a process of its own, and a producer that is not ours.

Commands come as lines of JSON on standard input; each is answered by one line on standard output.
"""

import base64
import ctypes
import itertools
import json
import pathlib
import sys

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

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

    def call(self, name, *arguments):
        failed = getattr(self.library, f"rd_kafka_mock_{name}")(self.cluster, *arguments)
        if failed:
            raise RuntimeError(f"{name}: {failed}")


class Cluster:
    def __init__(self):
        self.mock = Mock()
        self.files = {}
        self.address = self.mock.address()
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
        """The mock keeps five megabytes of a partition."""
        self.mock.call("topic_create", topic.encode(), partitions, 1)
        return {}

    def deny(self, topic, is_denied):
        """Whether clients have no right to a topic."""
        error = TOPIC_AUTHORIZATION_FAILED if is_denied else 0
        self.mock.library.rd_kafka_mock_topic_set_error(self.mock.cluster, topic.encode(), error)
        return {}

    def away(self, is_away):
        """Takes the broker away with every connection to it, or brings it back with its records."""
        self.mock.call("broker_set_down" if is_away else "broker_set_up", self.mock.BROKER)
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

    def read(self, topic):
        """Everything that is in a topic."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": "judge",
                "enable.auto.commit": False,
                "fetch.max.bytes": LARGEST,
                "receive.message.max.bytes": 2 * LARGEST,
                "log_level": 0,
            }
        )
        found = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        left, wanted = {}, []
        for number in found:
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
    cluster = Cluster()
    for line in sys.stdin:
        command = json.loads(line)
        answer = getattr(cluster, command.pop("do"))(**command)
        print(json.dumps(answer), flush=True)


main()
