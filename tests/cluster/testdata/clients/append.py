# A client of a cluster by redis-py as it stands: `append.py ADDR[,ADDR…] PREFIX`. See goredis/main.go.
import json
import logging
import sys
import threading
import time

from redis.cluster import ClusterNode, RedisCluster

logging.disable()  # the errors are counted
nodes = [ClusterNode(*address.rsplit(":", 1)) for address in sys.argv[1].split(",")]
mutex = threading.Lock()
lists, errors = {}, {}


def work(key, of):
    client = None
    n = 0
    while True:
        n += 1
        error = None
        try:
            if client is None:
                client = RedisCluster(startup_nodes=nodes)
            client.rpush(key, n)
        except Exception as e:
            error = type(e).__name__ + ": " + str(e)
        with mutex:
            of["Last"] = n
            if error is not None:
                of["Unacked"].append(n)
                errors[error] = errors.get(error, 0) + 1
        time.sleep(0.005 if error is None else 0.02)


for i in range(16):
    lists["%s:%d" % (sys.argv[2], i)] = {"Last": 0, "Unacked": []}
for key, of in lists.items():
    threading.Thread(target=work, args=(key, of), daemon=True).start()
for line in sys.stdin:
    with mutex:
        print(json.dumps({"Lists": lists, "Errors": errors}), flush=True)
