"""A RocketMQ client on the C++ library, one verb per run; line formats as the Java client's.

send     NAMESRV TOPIC IN OUT [MODE(sync|steady|orderly|oneway|batch)]   steady: slowly, each until it is acknowledged
consume  NAMESRV TOPIC GROUP COUNT SECONDS OUT [tags=EXPR]   of the properties those in NAMES
"""
import base64
import sys
import threading
import time

from rocketmq.client import Message, Producer, PushConsumer

NAMES = ["city", "number"]  # the library gives a property by its name only


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


def one(producer, made, mode, queue):
    try:
        if mode == "oneway":
            producer.send_oneway(made)
            return "-"
        answer = producer.send_orderly(made, int(queue)) if mode == "orderly" else producer.send_sync(made)
        return f"-\t{answer.offset}\t{answer.status.name}\t{answer.msg_id}"
    except Exception as error:  # each failure is one line of the result
        return f"!\t{error!r}"


def send(namesrv, topic, source, target, mode="sync"):
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
        end = time.time() + 60
        for fields in lines:
            result = one(producer, message(topic, fields), mode, fields[0])
            while mode == "steady" and result.startswith("!") and time.time() < end:
                time.sleep(0.05)
                result = one(producer, message(topic, fields), mode, fields[0])
            results.append(result)
            if mode == "steady":
                time.sleep(0.001)
    producer.shutdown()
    with open(target, "w") as out:
        out.write("".join(f"{r}\n" for r in results))


def consume(namesrv, topic, group, count, seconds, target, tags="tags=*"):
    consumer = PushConsumer(group)
    consumer.set_thread_count(1)  # of several threads one may set back the offset that another has just moved on
    consumer.set_namesrv_addr(namesrv)
    lock, got, out = threading.Lock(), [0], open(target, "w")

    def take(m):
        found = ",".join(f"{name}={text(m[name])}" for name in NAMES if m[name])
        with lock:
            out.write(
                f"{m.queue_id}\t{m.queue_offset}\t{text(m.tags or None)}\t{text(m.keys or None)}\t{text(m.body)}\t{found}\t"
                f"{m.id}\t{m.reconsume_times}\t{m.born_timestamp}\n"
            )
            out.flush()
            got[0] += 1

    consumer.subscribe(topic, take, tags.removeprefix("tags="))
    consumer.start()
    print("started", flush=True)
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
