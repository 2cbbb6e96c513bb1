# Counts at one address with redis-py, by several threads, and asks for maintenance notifications. It prints every
# error that reaches the application. Its argument is the address.
import sys
import threading
import time

import redis
from redis.maint_notifications import MaintNotificationsConfig

host, port = sys.argv[1].split(":")
client = redis.Redis(host=host, port=int(port), protocol=3,
                     maint_notifications_config=MaintNotificationsConfig(enabled=True, endpoint_type=None))


def count(key):
    while True:
        try:
            client.incr(key)
        except redis.exceptions.RedisError as e:
            print("error:", repr(e), e, flush=True)
        time.sleep(0.002)


for i in range(4):
    threading.Thread(target=count, args=("counter:%d" % i,)).start()
