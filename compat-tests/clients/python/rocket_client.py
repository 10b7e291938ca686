"""A RocketMQ client on the C++ library, one verb per run; line formats as the Java client's.

send     NAMESRV TOPIC MODE(sync|orderly|oneway|batch) IN OUT
consume  NAMESRV TOPIC GROUP COUNT SECONDS OUT [tags]
"""
import base64
import sys
import threading
import time

from rocketmq.client import Message, Producer, PushConsumer


def text(value):
    return "-" if value is None else base64.b64encode(value).decode()


def parse(value):
    return None if value == "-" else base64.b64decode(value)


def message(topic, fields):
    made = Message(topic)
    if fields[1] != "-":
        made.set_tags(parse(fields[1]))
    if fields[2] != "-":
        made.set_keys(parse(fields[2]))
    made.set_body(parse(fields[3]))
    for name, coded in (p.split("=", 1) for p in fields[4].split(",") if p):
        made.set_property(name, parse(coded).decode())
    return made


def send(namesrv, topic, mode, source, target):
    producer = Producer("compat-python-producer", timeout=10000, max_message_size=4 << 20)
    producer.set_namesrv_addr(namesrv)
    producer.start()
    results = []
    lines = [line.rstrip("\n").split("\t") for line in open(source)]
    if mode == "batch":
        for at in range(0, len(lines), 20):
            some = [message(topic, f) for f in lines[at : at + 20]]
            answer = producer.send_batch(some)
            results += [f"-\t{answer.offset + n}\t{answer.status.name}\t{answer.msg_id}" for n in range(len(some))]
    else:
        for fields in lines:
            try:
                made = message(topic, fields)
                if mode == "oneway":
                    producer.send_oneway(made)
                    results.append("-")
                    continue
                answer = (
                    producer.send_orderly(made, int(fields[0])) if mode == "orderly" else producer.send_sync(made)
                )
                results.append(f"-\t{answer.offset}\t{answer.status.name}\t{answer.msg_id}")
            except Exception as error:  # each failure is one line of the result
                results.append(f"!\t{error!r}")
    producer.shutdown()
    with open(target, "w") as out:
        out.write("".join(f"{r}\n" for r in results))


def consume(namesrv, topic, group, count, seconds, target, tags="*"):
    consumer = PushConsumer(group)
    consumer.set_namesrv_addr(namesrv)
    lock, got, out = threading.Lock(), [0], open(target, "w")

    def take(m):
        with lock:
            out.write(
                f"{m.queue_id}\t{m.queue_offset}\t{text(m.tags or None)}\t{text(m.keys or None)}\t{text(m.body)}\t\t"
                f"{m.id}\t{m.reconsume_times}\t{m.born_timestamp}\n"
            )
            out.flush()
            got[0] += 1

    consumer.subscribe(topic, take, tags)
    consumer.start()
    end = time.time() + float(seconds)
    while got[0] < int(count) and time.time() < end:
        time.sleep(0.05)
    time.sleep(0.3)
    consumer.shutdown()
    print(f"consumed\t{got[0]}")


if __name__ == "__main__":
    {"send": send, "consume": consume}[sys.argv[1]](*sys.argv[2:])
    print("ok", flush=True)
    import os

    os._exit(0)  # the C++ library's threads do not end by themselves
