"""A Kafka client on librdkafka, one verb per run; the same line formats as the Java client.

produce  BOOTSTRAP TOPIC IN OUT [pace.ms=N] [prop=value ...]
consume  BOOTSTRAP TOPIC GROUP COUNT SECONDS OUT [prop=value ...]
read     BOOTSTRAP TOPIC OUT FROM ...     FROM is the first offset of each partition, in order; reads to the present end
committed BOOTSTRAP GROUP TOPIC PARTITIONS   a line "partition offset" each, -1 for none
"""
import base64
import sys
import time

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition


def text(value):
    return "-" if value is None else base64.b64encode(value).decode()


def parse(value):
    return None if value == "-" else base64.b64decode(value)


def settings(bootstrap, args):
    found = {"bootstrap.servers": bootstrap}
    for arg in args:
        name, value = arg.split("=", 1)
        found[name] = value
    return found


def produce(bootstrap, topic, source, target, *args):
    conf = {"linger.ms": "5", "message.max.bytes": "8000000", **settings(bootstrap, args)}
    pace = int(conf.pop("pace.ms", 0)) / 1000
    producer = Producer(conf)
    results = []

    def one(place):
        def told(error, message):
            results[place] = f"!\t{error}" if error else f"{message.partition()}\t{message.offset()}"

        return told

    with open(source) as lines:
        for line in lines:
            partition, key, value, headers = line.rstrip("\n").split("\t")
            more = {}
            if partition != "-":
                more["partition"] = int(partition)
            if headers:
                more["headers"] = [
                    (name, parse(coded)) for name, coded in (h.split("=", 1) for h in headers.split(","))
                ]
            results.append("!\tno answer")
            while True:
                try:
                    producer.produce(
                        topic, key=parse(key), value=parse(value), on_delivery=one(len(results) - 1), **more
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(pace)
            time.sleep(pace)
    producer.flush(120)
    with open(target, "w") as out:
        out.write("".join(f"{r}\n" for r in results))


def consume(bootstrap, topic, group, count, seconds, target, *args):
    conf = {
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
        "fetch.message.max.bytes": "8000000",
        **settings(bootstrap, args),
    }
    consumer = Consumer(conf)
    consumer.subscribe(
        topic.split(","),
        on_assign=lambda c, ps: print("assigned", [f"{p.topic}-{p.partition}" for p in ps], flush=True),
    )
    got, end = 0, time.time() + float(seconds)
    with open(target, "w") as out:
        while got < int(count) and time.time() < end:
            some = consumer.consume(500, 0.2)
            good = 0
            for message in some:
                if message.error():
                    if message.error().code() != KafkaError._PARTITION_EOF:
                        print("error", message.error(), flush=True)
                    continue
                headers = ",".join(f"{n}={text(v)}" for n, v in message.headers() or [])
                out.write(
                    f"{message.partition()}\t{message.offset()}\t{text(message.key())}\t"
                    f"{text(message.value())}\t{headers}\t{message.timestamp()[1]}\n"
                )
                good += 1
            got += good
            if good:
                out.flush()
                consumer.commit(asynchronous=False)
    consumer.close()
    print(f"consumed\t{got}")


def reader(bootstrap, group):
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
        }
    )


def read(bootstrap, topic, target, *starts):
    consumer = reader(bootstrap, "compat-reader")
    ends, left = {}, set()
    for partition, start in enumerate(starts):
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        ends[partition] = high
        print(f"end\t{partition}\t{low}\t{high}")
        if int(start) < high:
            left.add(partition)
    consumer.assign([TopicPartition(topic, p, int(starts[p])) for p in sorted(left)])
    limit = time.time() + 120
    with open(target, "w") as out:
        while left and time.time() < limit:
            for message in consumer.consume(1000, 0.5):
                if message.error():
                    if message.error().code() == KafkaError._PARTITION_EOF:
                        left.discard(message.partition())
                        continue
                    raise RuntimeError(message.error())
                out.write(f"{message.partition()}\t{message.offset()}\t{message.value().decode()}\n")
                if message.offset() + 1 >= ends[message.partition()]:
                    left.discard(message.partition())
    if left:
        raise RuntimeError(f"partitions {left} not read to their end")
    consumer.close()


def committed(bootstrap, group, topic, partitions):
    consumer = reader(bootstrap, group)
    wanted = [TopicPartition(topic, p) for p in range(int(partitions))]
    for found in consumer.committed(wanted, timeout=30):
        print(f"{found.partition}\t{max(found.offset, -1)}")
    consumer.close()


if __name__ == "__main__":
    {"produce": produce, "consume": consume, "read": read, "committed": committed}[sys.argv[1]](*sys.argv[2:])
    print("ok")
