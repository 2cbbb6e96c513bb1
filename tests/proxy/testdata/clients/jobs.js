// BullMQ as it stands, with a tagged prefix: `node jobs.js HOST:PORT COUNT`. Each job runs once and gives its result.
const assert = require('assert')
const { Queue, Worker, QueueEvents } = require('bullmq')
const [address, count] = [process.argv[2], +process.argv[3]]
const connection = { host: address.split(':')[0], port: +address.split(':')[1], maxRetriesPerRequest: null }
const options = { connection, prefix: '{jobs}' }

async function main() {
  const queue = new Queue('sums', options)
  const events = new QueueEvents('sums', options)
  await events.waitUntilReady()
  const runs = new Map()
  let completed = 0
  const all = new Promise((done) => events.on('completed', () => ++completed === count && done()))
  const workers = [1, 2].map(() => new Worker('sums', async (job) => {
    runs.set(job.id, (runs.get(job.id) || 0) + 1)
    return job.data.n * 2
  }, { ...options, concurrency: 20 }))
  for (let n = 0; n < count; n += 500) {
    await queue.addBulk([...Array(Math.min(500, count - n)).keys()].map((i) => ({ name: 'sum', data: { n: n + i } })))
  }
  await all
  assert.equal(runs.size, count)
  assert.ok([...runs.values()].every((n) => n === 1), 'a job has run twice')
  const done = await queue.getJobs(['completed'], 0, 99)
  for (const job of done) assert.equal(job.returnvalue, job.data.n * 2)
  const counts = await queue.getJobCounts('completed', 'failed', 'waiting', 'active')
  assert.deepEqual([counts.completed, counts.failed, counts.waiting, counts.active], [count, 0, 0, 0])
  await Promise.all([...workers, events, queue].map((c) => c.close()))
}

main().then(() => console.log('ok'), (e) => {
  console.error(e)
  process.exit(1)
})
