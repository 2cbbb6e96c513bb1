// A client of a cluster by ioredis or node-redis as they stand: `node append.js LIBRARY ADDR[,ADDR…] PREFIX`.
// See goredis/main.go.
const [library, addresses, prefix] = process.argv.slice(2)
const nodes = addresses.split(',').map((a) => ({ host: a.split(':')[0], port: +a.split(':')[1] }))
const lists = {}, errors = {}

async function connect() {
  if (library === 'ioredis') {
    const client = new (require('ioredis')).Cluster(nodes)
    client.on('error', () => {})
    return (key, n) => client.rpush(key, n)
  }
  const client = require('redis').createCluster({ rootNodes: nodes.map((n) => ({ url: `redis://${n.host}:${n.port}` })) })
  client.on('error', () => {})
  await client.connect()
  return (key, n) => client.rPush(key, String(n))
}

async function work(push, key) {
  const list = (lists[key] = { Last: 0, Unacked: [] })
  for (let n = 1; ; n++) {
    let pause = 5
    try {
      await push(key, n)
    } catch (e) {
      list.Unacked.push(n)
      errors[String(e)] = (errors[String(e)] || 0) + 1
      pause = 20
    }
    list.Last = n
    await new Promise((done) => setTimeout(done, pause))
  }
}

connect().then((push) => {
  for (let i = 0; i < 16; i++) work(push, `${prefix}:${i}`)
})
process.stdin.on('data', () => console.log(JSON.stringify({ Lists: lists, Errors: errors })))
process.stdin.on('end', () => process.exit(0))
