"""redis-py as it stands, as a client of one server: `python3 use.py HOST:PORT PROTOCOL`."""
import sys
import threading

import redis

host, port = sys.argv[1].split(":")
options = {"protocol": 3} if sys.argv[2] == "3" and int(redis.__version__.split(".")[0]) >= 5 else {}
pool = redis.ConnectionPool(host=host, port=int(port), decode_responses=True, **options)
r = redis.Redis(connection_pool=pool)


def same(got, want):
    assert got == want, f"{got!r}; want {want!r}"


def clients():
    def work(n):
        for i in range(50):
            r.set(f"py:{n}:{i}", i)
            same(r.get(f"py:{n}:{i}"), str(i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def pipelines():
    p = r.pipeline(transaction=False)
    for i in range(500):
        p.set(f"py:p:{i}", i)
        p.get(f"py:p:{i}")
    same(p.execute(), [x for i in range(500) for x in (True, str(i))])
    same(r.mget([f"py:p:{i}" for i in range(100)]), [str(i) for i in range(100)])
    same(r.delete(*[f"py:p:{i}" for i in range(500)]), 500)


def transactions():
    with r.pipeline(transaction=True) as p:
        p.watch("py{t}a")
        p.multi()
        p.incr("py{t}a")
        p.incr("py{t}b")
        same(p.execute(), [1, 1])
    with r.pipeline(transaction=True) as p:
        p.watch("py{t}a")
        r.set("py{t}a", 7)
        p.multi()
        p.incr("py{t}a")
        try:
            p.execute()
            raise AssertionError("EXEC ran although a watched key had changed")
        except redis.WatchError:
            pass


def scripts():
    add = r.register_script("return redis.call('incrby', KEYS[1], ARGV[1])")
    same(add(keys=["py:script"], args=[5]), 5)
    r.script_flush()
    same(add(keys=["py:script"], args=[5]), 10)


def messages():
    p = r.pubsub()
    p.subscribe("py:news")
    p.psubscribe("py:*")
    same([p.get_message(timeout=10)["type"] for _ in range(2)], ["subscribe", "psubscribe"])
    same(r.publish("py:news", "hello"), 2)
    heard = []
    while len(heard) < 2:
        m = p.get_message(ignore_subscribe_messages=True, timeout=10)
        if m:
            heard.append((m["type"], m["data"]))
    same(sorted(heard), [("message", "hello"), ("pmessage", "hello")])
    p.close()


def others():
    r.rpush("py:list", 1, 2)
    same(r.blpop("py:list", timeout=5), ("py:list", "1"))
    same(len(set(r.scan_iter(match="py:0:*", count=100))), 50)
    r.xadd("py:stream", {"f": "v"})
    same(r.xlen("py:stream"), 1)
    r.hset("py:hash", mapping={"a": 1, "b": 2})
    same(r.hgetall("py:hash"), {"a": "1", "b": "2"})
    with r.lock("py:lock", timeout=10):
        same(r.exists("py:lock"), 1)
    r.client_setname("py")
    assert r.info()["redis_version"]


for step in (clients, pipelines, transactions, scripts, messages, others):
    step()
print("ok")
