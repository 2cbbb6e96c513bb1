// ioredis or node-redis as they stand, as clients of one server: `node use.js LIBRARY HOST:PORT`.
const assert = require('assert')
const [library, address] = process.argv.slice(2)
const [host, port] = [address.split(':')[0], +address.split(':')[1]]
const range = (n) => [...Array(n).keys()]
const add = "return redis.call('incrby', KEYS[1], ARGV[1])"

async function ioredis() {
  const Redis = require('ioredis')
  const open = () => new Redis({ host, port })
  const pool = range(8).map(open)
  await Promise.all(pool.map((r, n) => Promise.all(range(100).map(async (i) => {
    await r.set(`io:${n}:${i}`, i)
    assert.equal(await r.get(`io:${n}:${i}`), String(i))
  }))))
  const r = pool[0]
  const p = r.pipeline()
  range(500).forEach((i) => p.set(`io:p:${i}`, i).get(`io:p:${i}`))
  assert.deepEqual((await p.exec()).map(([e, v]) => e || v), range(500).flatMap((i) => ['OK', String(i)]))
  assert.deepEqual(await r.mget(range(100).map((i) => `io:p:${i}`)), range(100).map(String))
  assert.deepEqual(await r.multi().incr('io{t}a').incr('io{t}b').exec(), [[null, 1], [null, 1]])
  await r.watch('io{t}a')
  await pool[1].set('io{t}a', 7)
  assert.equal(await r.multi().incr('io{t}a').exec(), null)
  r.defineCommand('add', { numberOfKeys: 1, lua: add })
  assert.equal(await r.add('io:script', 5), 5)
  await r.script('FLUSH')
  assert.equal(await r.add('io:script', 5), 10)
  const sub = open()
  await sub.subscribe('io:news')
  await sub.psubscribe('io:n*')
  const heard = Promise.all(['message', 'pmessage'].map((e) => new Promise((done) => sub.on(e, (...m) => done(m.at(-1))))))
  assert.equal(await r.publish('io:news', 'hello'), 2)
  assert.deepEqual(await heard, ['hello', 'hello'])
  await r.rpush('io:list', 1)
  assert.deepEqual(await r.blpop('io:list', 5), ['io:list', '1'])
  const keys = new Set()
  for await (const found of r.scanStream({ match: 'io:0:*', count: 100 })) found.forEach((k) => keys.add(k))
  assert.equal(keys.size, 100)
  for (const c of [...pool, sub]) c.disconnect()
}

async function nodeRedis() {
  const { createClient } = require('redis')
  const open = async (options) => createClient({ socket: { host, port }, ...options }).on('error', () => {}).connect()
  for (const RESP of [2, 3]) {
    const name = `node${RESP}`
    const r = await open({ RESP })
    await Promise.all(range(300).map(async (i) => {
      await r.set(`${name}:${i}`, String(i))
      assert.equal(await r.get(`${name}:${i}`), String(i))
    }))
    assert.deepEqual(await r.mGet(range(100).map((i) => `${name}:${i}`)), range(100).map(String))
    assert.deepEqual(await r.multi().incr(`{${name}}a`).incr(`{${name}}b`).exec(), [1, 1])
    const other = await open({ RESP })
    await other.watch(`{${name}}a`)
    await r.set(`{${name}}a`, '7')
    await assert.rejects(other.multi().incr(`{${name}}a`).exec())
    assert.equal(await r.eval(add, { keys: [`${name}:script`], arguments: ['5'] }), 5)
    const sub = await open({ RESP })
    const heard = new Promise((done) => sub.subscribe(`${name}:news`, done))
    const match = new Promise((done) => sub.pSubscribe(`${name}:n*`, done))
    await sub.ping()
    assert.equal(await r.publish(`${name}:news`, 'hello'), 2)
    assert.equal(await heard, 'hello')
    assert.equal(await match, 'hello')
    await r.hSet(`${name}:hash`, { a: '1', b: '2' })
    assert.deepEqual({ ...(await r.hGetAll(`${name}:hash`)) }, { a: '1', b: '2' })
    const keys = new Set()
    for await (const found of r.scanIterator({ MATCH: `${name}:*`, COUNT: 100 })) [found].flat().forEach((k) => keys.add(k))
    assert.ok(keys.size >= 300)
    for (const c of [r, other, sub]) c.destroy()
  }
}

;({ ioredis, redis: nodeRedis })[library]().then(() => console.log('ok'), (e) => {
  console.error(e)
  process.exit(1)
})
