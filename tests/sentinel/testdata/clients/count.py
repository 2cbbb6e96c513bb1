# Counts at the primary that Sentinel names, and reads at a replica. Arguments: the Sentinels' ports.
import sys
import time

import redis
from redis.sentinel import Sentinel

sentinel = Sentinel([("127.0.0.1", int(port)) for port in sys.argv[1:]], socket_timeout=2)
primary = sentinel.master_for("m", socket_timeout=2)
replica = sentinel.slave_for("m", socket_timeout=2)
while True:
    try:
        primary.incr("python")
        if replica.get("python") is not None:
            primary.incr("python:read")
    except redis.exceptions.RedisError as e:
        print(repr(e), flush=True)
    time.sleep(0.02)
