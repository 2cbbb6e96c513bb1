// Counts at the primary that Sentinel names, and reads at a replica. Arguments: the Sentinels' ports.
const Redis = require('ioredis');

const sentinels = process.argv.slice(2).map((port) => ({ host: '127.0.0.1', port: Number(port) }));
const limits = { connectTimeout: 2000, commandTimeout: 2000 };
// failoverDetector has it leave a primary that stands still when Sentinels tell of another one.
const connect = (role) => new Redis({ sentinels, name: 'm', role, failoverDetector: true, ...limits });
const [primary, replica] = [connect('master'), connect('slave')];
for (const client of [primary, replica]) {
  client.on('error', (e) => console.log(String(e)));
}

async function count() {
  for (;;) {
    try {
      await primary.incr('ioredis');
      if (await replica.get('ioredis')) await primary.incr('ioredis:read');
    } catch (e) {
      console.log(String(e));
    }
    await new Promise((done) => setTimeout(done, 20));
  }
}
count();
