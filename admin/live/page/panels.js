// The panels: what each shows of INFO (i), of the other replies (r) and of the state of the server (h).

import { $, make, say, asIs, counted, whole, percent, onOff, yesNo, bytes, perSecond, micros, seconds, when, clock,
  pairs,
  family } from './draw.js';
import { addChart } from './charts.js';
import { addTable, column, numbers, names } from './tables.js';

// --- pieces ---

// figures shows fields of INFO: rows of label, field and form. Each keeps its raw value beside it.
function figures(rows) {
  const list = make('dl', { class: 'figures' });
  const shown = rows.map(([label, field, form]) => {
    const dd = make('dd', { 'data-field': field });
    const element = make('div', {}, make('dt', {}, label), dd);
    list.append(element);
    return { field, form: form || counted, dd, element };
  });
  return {
    element: list,
    update(i) {
      for (const { field, form, dd, element } of shown) {
        element.hidden = !(field in i);
        if (element.hidden) {
          dd.removeAttribute('data-field');
          continue;
        }
        dd.dataset.field = field;
        dd.dataset.value = i[field];
        dd.title = `${field}: ${i[field]}`;
        say(dd, form(i[field], i));
      }
    },
  };
}

// bars shows rows of name, value and field, each with a bar as long as its value.
function bars() {
  const element = make('div', { class: 'bars' });
  return {
    element,
    update(rows, form) {
      const most = Math.max(1, ...rows.map(([, value]) => value));
      element.replaceChildren(...rows.map(([name, value, field]) => make('div', { class: 'row' },
        make('span', {}, name),
        make('svg', { viewBox: '0 0 100 10', preserveAspectRatio: 'none', class: 'track', 'aria-hidden': 'true' },
          make('rect', { width: Math.max(0, 100 * value / most), height: 10 })),
        make('span', { class: 'amount', 'data-field': field, 'data-value': value, title: counted(value) },
          form(value)))));
    },
  };
}

const text = (words) => make('p', { class: 'help soft' }, words);

// line is a series of a chart.
const line = (key, label, color, form, more) => ({ key, label, color, form, ...more });

const DASH = [6, 3];

// --- panels ---

function throughput() {
  const shown = figures([
    ['Commands/s', 'instantaneous_ops_per_sec'],
    ['Commands', 'total_commands_processed'],
    ['In', 'instantaneous_input_kbps', (n) => perSecond(n * 1024)],
    ['Out', 'instantaneous_output_kbps', (n) => perSecond(n * 1024)],
    ['Hits', 'keyspace_hits'],
    ['Misses', 'keyspace_misses'],
    ['Expired keys', 'expired_keys'],
    ['Evicted keys', 'evicted_keys'],
    ['Error replies', 'total_error_replies'],
  ]);
  const errors = addTable('Error replies by code', [
    column('Code', 'code', 2), numbers('Replies', 'count', 1),
  ], { none: 'No error has been replied', sort: '-Replies' });
  return {
    charts: [
      addChart({ title: 'Commands', unit: 'count', note: 'per second', series: [
        line('ops', 'commands', 'a', whole), line('errors', 'error replies', 'd', whole, { dash: DASH })] }),
      addChart({ title: 'Network', unit: 'rate', series: [
        line('in', 'in', 'a', perSecond), line('out', 'out', 'b', perSecond, { dash: DASH }),
        line('replin', 'from primary', 'c', perSecond), line('replout', 'to replicas', 'e', perSecond, { dash: [2,
          3] })] }),
      addChart({ title: 'Keys read, expired and evicted', unit: 'count', note: 'per second', series: [
        line('hits', 'hits', 'c', whole), line('misses', 'misses', 'b', whole, { dash: DASH }),
        line('expired', 'expired', 'a', whole, { dash: [2, 3] }), line('evicted', 'evicted', 'd', whole)] }),
    ],
    parts: [shown, errors],
    update(i) {
      shown.update(i);
      errors.update(family(i, 'errorstat_').map(([code, v]) => ({ code, count: pairs(v).count })));
    },
  };
}

function latency(ask) {
  const micro = (key, worth, title) => numbers(title || key, key, worth, micros);
  const one = addChart({ title: 'One command', unit: 'micros', note: 'the last hour, logarithmic',
    series: latencyLines() });
  one.own = true;
  one.element.hidden = true;
  const pick = async ({ name }) => {
    const points = await ask(`/live/command?name=${encodeURIComponent(name)}`);
    one.element.hidden = false;
    one.element.querySelector('h3').firstChild.nodeValue = name.toUpperCase();
    one.box.dataset.chart = name;
    one.spec.title = name.toUpperCase();
    const now = Date.now() / 1000;
    one.draw(points, now - 3600, now);
  };
  const replies = addTable('From the socket read to the reply written, since the start', [
    names('Command', 'name', 9), numbers('Calls', 'calls', 5), micro('p50', 6), micro('p99', 8), micro('max', 7),
    micro('p99.9', 3), micro('mean', 2),
  ], { none: 'No reply has been measured yet', sort: '-Calls', pick });
  const core = addTable('In the core alone', [
    names('Command', 'name', 9), numbers('Calls', 'calls', 5), numbers('Mean', 'usec_per_call', 6, micros),
      micro('p50', 3),
    micro('p99', 8), micro('p99.9', 2), numbers('Failed', 'failed_calls', 7), numbers('Refused', 'rejected_calls', 1),
  ], { none: 'No command has run yet', sort: '-Calls' });
  const monitor = addTable('Events past latency-monitor-threshold', [
    column('Event', 0, 3), numbers('Last', (e) => e[1], 2, when), numbers('Took', (e) => e[2] * 1000, 4, micros),
    numbers('Most', (e) => e[3] * 1000, 1, micros),
  ]);
  return {
    charts: [addChart({ title: 'Latency', unit: 'micros', note: 'of all replies, logarithmic',
      series: latencyLines() })],
    parts: [text('Click a command to see its latency over the last hour.'), one, replies, core, monitor],
    update(i, r) {
      replies.update(family(i, 'reply_usec_').map(([name, v]) => ({ name, ...pairs(v) })));
      core.update(family(i, 'cmdstat_').map(([name, v]) =>
        ({ name, ...pairs(v), ...pairs(i['latency_percentiles_usec_' + name] || '') })));
      monitor.update(r.latency);
      monitor.element.hidden = !(r.latency || []).length;
    },
  };
}

function latencyLines() {
  return [line('max', 'max', 'd', micros, { dash: [2, 3] }), line('p99', 'p99', 'b', micros, { dash: DASH }),
    line('p50', 'p50', 'a', micros)];
}

function memory() {
  const shown = figures([
    ['Used', 'used_memory', bytes],
    ['Limit', 'maxmemory', (n) => n === '0' ? 'none' : bytes(n)],
    ['Policy', 'maxmemory_policy', asIs],
    ['Resident', 'used_memory_rss', bytes],
    ['Peak', 'used_memory_peak', bytes],
    ['Data set', 'used_memory_dataset', bytes],
    ['Clients', 'mem_clients_normal', bytes],
    ['Allocator’s waste', 'allocator_frag_ratio', (n) => n + ' ×'],
    ['Resident of used', 'mem_fragmentation_ratio', (n) => n + ' ×'],
  ]);
  const purposes = bars();
  return {
    charts: [addChart({ title: 'Memory by purpose', unit: 'bytes', stacked: true, series: [
      line('runtime', 'program and runtime', 'e', bytes), line('spare', 'free in pages', 'f', bytes),
      line('forreplicas', 'replication', 'c', bytes), line('forclients', 'clients', 'b', bytes),
      line('data', 'data', 'a', bytes), line('used', 'counted', 'text', bytes, { line: true, dash: [2, 3] }),
      line('limit', 'limit of counted', 'd', bytes, { line: true, dash: [8, 4] })] })],
    parts: [shown, purposes],
    update(i) {
      shown.update(i);
      purposes.update(family(i, 'memory_purpose_')
        .map(([name, v]) => [name.replaceAll('_', ' '), Number(v), 'memory_purpose_' + name])
        .sort((a, b) => b[1] - a[1]), bytes);
    },
  };
}

function turns() {
  const off = (n) => n === '0' ? 'off' : micros(n);
  const shown = figures([
    ['Turns/s', 'instantaneous_eventloop_cycles_per_sec'],
    ['Mean turn lately', 'instantaneous_eventloop_duration_usec', micros],
    ['Longest turn', 'longest_turn_usec', micros],
    ['Its CPU time', 'longest_turn_cpu_usec', off],
    ['Turns', 'eventloop_cycles'],
    ['Commands, at most', 'most_commands_per_turn'],
    ['Time in commands', 'eventloop_duration_cmd_sum', micros],
    ['Time in duties', 'duties_duration_sum', micros],
  ]);
  const stalls = addTable('What held a turn for longer than stall-threshold', [
    names('What', 'what', 9), numbers('Took', 'usec', 8, micros), numbers('Began',
      (s) => (s.time - s.usec / 1000) / 1000, 7, when),
    names('Client', (s) => `${s.addr} ${s.name}`.trim(), 6), names('Key', 'key', 4), column('Kind', 'kind', 3),
    numbers('CPU', 'cpu-usec', 2, micros), numbers('Id', 'id', 1, asIs),
  ], { none: 'Nothing has held a turn', sort: '-Id' });
  return {
    charts: [
      addChart({ title: 'Turns and stalls', unit: 'micros', note: 'logarithmic', series: [
        line('turn', 'mean turn', 'a', micros), line('stall', 'longest stall', 'd', micros, { dots: true })] }),
      addChart({ title: 'Processor', unit: 'percent', note: 'of one core', series: [line('cpu', 'CPU', 'a',
        percent)] }),
    ],
    parts: [text('All commands run one after another, in turns. A turn that is long makes every client wait.'), shown,
      stalls],
    update(i, r) {
      shown.update(i);
      stalls.update(r.stalls);
    },
  };
}

function clients() {
  const shown = figures([
    ['Connected', 'connected_clients'],
    ['Limit', 'maxclients'],
    ['Blocked', 'blocked_clients'],
    ['Tracking', 'tracking_clients'],
    ['Accepted', 'total_connections_received'],
    ['Rejected', 'rejected_connections'],
    ['Largest input', 'client_recent_max_input_buffer', bytes],
    ['Largest output', 'client_recent_max_output_buffer', bytes],
  ]);
  const list = addTable('The first hundred by id', [
    numbers('Id', 'id', 5, asIs), column('Command', 'cmd', 9), column('Address', 'addr', 8), numbers('Memory',
      'tot-mem', 7, bytes),
    numbers('Idle', 'idle', 6, seconds), names('Name', 'name', 4), names('User', 'user', 3), numbers('Age', 'age', 2,
      seconds),
    numbers('Db', 'db', 1, asIs),
  ], { none: 'No clients', sort: 'Id' });
  return {
    charts: [
      addChart({ title: 'Clients', unit: 'count', series: [
        line('clients', 'connected', 'a', counted), line('blocked', 'blocked', 'b', counted, { dash: DASH })] }),
      addChart({ title: 'Connects', unit: 'count', note: 'per second', series: [line('connects', 'connects', 'a',
        counted)] }),
    ],
    parts: [shown, list],
    update(i, r, h, state) {
      shown.update(i);
      list.update(state.clients.map((l) => pairs(l, ' ')));
    },
  };
}

function keys() {
  const hot = addTable('Hot keys by their share of all accesses', [
    names('Key', 'key', 9), numbers('Share', 'share', 8, percent), numbers('Reads/s', 'reads', 7, whole),
    numbers('Writes/s', 'writes', 6, whole), numbers('CPU/s', 'cpu-usec', 3, micros), numbers('Bytes/s', 'bytes', 2,
      bytes),
    numbers('Db', 'db', 1, asIs),
  ], { none: 'No key has been hot lately', sort: '-Share' });
  const big = addTable('Big keys: past 64 KB or 1,000 elements', [
    names('Key', 'key', 9), numbers('Bytes', 'bytes', 8, bytes), numbers('Elements', 'elements', 7), column('Type',
      'type', 5),
    numbers('Db', 'db', 1, asIs),
  ], { none: 'No key is big', sort: '-Bytes' });
  const databases = addTable('Databases', [
    numbers('Db', 'db', 9, asIs), numbers('Keys', 'keys', 8), numbers('With a TTL', 'expires', 7),
    numbers('Mean TTL', (d) => Number(d.avg_ttl) / 1000, 1, (n) => n ? seconds(Math.round(n)) : '–'),
  ], { none: 'No keys', sort: 'Db' });
  return {
    charts: [],
    parts: [hot, big, databases],
    update(i, r) {
      hot.update(r.hotkeys);
      big.update(Object.entries(r.bigkeys || {}).flatMap(([type, list]) => (list || []).map((k) => ({ type, ...k }))));
      databases.update(Object.entries(i).filter(([name]) => /^db\d+$/.test(name))
        .map(([name, value]) => ({ db: name.slice(2), ...pairs(value) })));
    },
  };
}

function slowLog() {
  const list = addTable('Commands past slowlog-log-slower-than', [
    names('Command', (e) => e[3].join(' '), 9), numbers('Took', 2, 8, micros), numbers('When', 1, 7, when),
    names('Client', (e) => `${e[4]} ${e[5]}`.trim(), 6), numbers('Id', 0, 1, asIs),
  ], { none: 'No command has been slow', sort: '-Id' });
  return { charts: [], parts: [list], update: (i, r) => list.update(r.slowlog) };
}

function persistence() {
  const took = (n) => n === '-1' ? 'never' : seconds(n);
  const shown = figures([
    ['Last save', 'rdb_last_save_time', when],
    ['It ended', 'rdb_last_bgsave_status', asIs],
    ['It took', 'rdb_last_bgsave_time_sec', took],
    ['Changes since', 'rdb_changes_since_last_save'],
    ['A save runs', 'rdb_bgsave_in_progress', yesNo],
    ['Saves', 'rdb_saves'],
    ['Loading', 'loading', yesNo],
    ['Append-only file', 'aof_enabled', onOff],
    ['Last write', 'aof_last_write_status', asIs],
    ['Last rewrite', 'aof_last_bgrewrite_status', asIs],
    ['A rewrite runs', 'aof_rewrite_in_progress', yesNo],
    ['Its size', 'aof_current_size', bytes],
    ['Size after rewrite', 'aof_base_size', bytes],
    ['Late fsyncs', 'aof_delayed_fsync'],
  ]);
  return {
    charts: [addChart({ title: 'Changes since the last save', unit: 'count', series: [line('dirty', 'changes', 'a',
      whole)] })],
    parts: [shown],
    update: (i) => shown.update(i),
  };
}

function replication() {
  const shown = figures([
    ['Role', 'role', (role) => role === 'master' ? 'primary' : 'replica'],
    ['Replicas', 'connected_slaves'],
    ['Offset', 'master_repl_offset'],
    ['Primary', 'master_host', (host, i) => `${host}:${i.master_port}`],
    ['Link', 'master_link_status', asIs],
    ['Heard', 'master_last_io_seconds_ago', (n) => n === '-1' ? 'never' : seconds(n) + ' ago'],
    ['From primary', 'instantaneous_input_repl_kbps', (n) => perSecond(n * 1024)],
    ['To replicas', 'instantaneous_output_repl_kbps', (n) => perSecond(n * 1024)],
    ['Backlog', 'repl_backlog_histlen', bytes],
    ['Full copies', 'sync_full'],
    ['Failover', 'master_failover_state', asIs],
  ]);
  const list = addTable('Replicas', [
    column('Address', (s) => `${s.ip}:${s.port}`, 9), column('State', 'state', 7), numbers('Behind', 'behind', 8,
      bytes),
    numbers('Answered', 'lag', 6, (n) => seconds(n) + ' ago'), numbers('Offset', 'offset', 1),
  ], { none: 'No replicas are connected' });
  return {
    charts: [addChart({ title: 'Replica lag', unit: 'bytes', note: 'of the replica that is furthest behind', series: [
      line('lag', 'behind', 'a', bytes)] })],
    parts: [shown, list],
    update(i) {
      shown.update(i);
      list.update(family(i, 'slave').filter(([n]) => /^\d+$/.test(n)).map(([, value]) => {
        const row = pairs(value);
        return { ...row, behind: Math.max(0, i.master_repl_offset - row.offset) };
      }));
    },
  };
}

function cluster() {
  const map = make('svg', { class: 'slots', viewBox: '0 0 16384 10', preserveAspectRatio: 'none', role: 'img' });
  const legend = make('p', { class: 'legend' });
  const list = addTable('Nodes', [
    column('Address', 'address', 9), column('Role', 'role', 8), numbers('Slots', 'slots', 7), column('Link', 'link', 6),
    names('Ranges', (n) => someRanges(n.ranges), 4), column('Node', (n) => n.id.slice(0, 8), 2), names('Flags',
      'flags', 1),
  ], { sort: 'Address' });
  return {
    charts: [],
    parts: [map, legend, list],
    present: (i, r) => i.cluster_enabled === '1' && r.nodes,
    update(i, r) {
      const nodes = r.nodes.trim().split('\n').map(clusterNode);
      const count = { mine: 0, other: 0, failed: 0 };
      map.replaceChildren();
      for (const n of nodes) {
        const whose = n.flags.includes('myself') ? 'mine' : n.flags.includes('fail') ? 'failed' : 'other';
        for (const [from, to] of n.ranges) {
          map.append(make('rect', { x: from, width: to - from + 1, height: 10, class: whose }));
          count[whose] += to - from + 1;
        }
      }
      const missing = 16384 - count.mine - count.other - count.failed;
      const words = `${counted(count.mine)} slots here, ${counted(count.other)} on other nodes, ` +
        `${counted(count.failed)} on failed nodes, ${counted(missing)} on no node`;
      map.setAttribute('aria-label', words);
      say(legend, words);
      list.update(nodes);
    },
  };
}

// clusterNode is a line of CLUSTER NODES. Slots on their way from or to the node are left out.
function clusterNode(words) {
  words = words.split(' ');
  const ranges = words.slice(8)
    .filter((word) => word[0] !== '[')
    .map((word) => word.split('-').map(Number))
    .map(([from, to]) => [from, to === undefined ? from : to]);
  return {
    id: words[0],
    address: words[1].split('@')[0],
    flags: words[2],
    role: words[2].includes('master') ? 'primary' : 'replica',
    link: words[7],
    ranges,
    slots: ranges.reduce((n, [from, to]) => n + to - from + 1, 0),
  };
}

function someRanges(ranges) {
  const most = 8;
  const shown = ranges.slice(0, most).map(([from, to]) => from === to ? from : `${from}–${to}`);
  return shown.join(' ') + (ranges.length > most ? ' …' : '');
}

function server() {
  const certificate = (n, i,
    name) => i[name + '_serial'] === 'none' ? 'none' : n === '0' ? 'has ended' : 'in ' + seconds(n);
  const shown = figures([
    ['Version', 'spindle_version', asIs],
    ['Commands as of Redis', 'redis_version', asIs],
    ['Up', 'uptime_in_seconds', seconds],
    ['Process', 'process_id', asIs],
    ['Port', 'tcp_port', asIs],
    ['Loop', 'multiplexing_api', asIs],
    ['Server certificate ends', 'tls_server_cert_expires_in_seconds', (n, i) => certificate(n, i, 'tls_server_cert')],
    ['Client certificate ends', 'tls_client_cert_expires_in_seconds', (n, i) => certificate(n, i, 'tls_client_cert')],
    ['Authority ends', 'tls_ca_cert_expires_in_seconds', (n, i) => certificate(n, i, 'tls_ca_cert')],
  ]);
  const marks = addTable('Marks on the charts', [
    numbers('When', (e) => e.at / 1000, 7, when), column('Kind', 'kind', 6), names('What', 'text', 9),
  ], { none: 'Nothing has happened yet', sort: '-When' });
  return {
    charts: [],
    parts: [shown, marks],
    update(i, r, h) {
      shown.update(i);
      marks.update(h.events);
    },
  };
}

// id, title and maker of the panels in the order of a phone, and their place in two and in three columns
const PANELS = [
  ['throughput', 'Throughput', throughput, 0, 0],
  ['latency', 'Latency', latency, 1, 1],
  ['memory', 'Memory', memory, 0, 2],
  ['turns', 'Turns and stalls', turns, 1, 1],
  ['clients', 'Clients', clients, 0, 0],
  ['keys', 'Hot and big keys', keys, 1, 2],
  ['slowlog', 'Slow log', slowLog, 1, 1],
  ['replication', 'Replication', replication, 0, 2],
  ['persistence', 'Persistence', persistence, 1, 0],
  ['cluster', 'Cluster', cluster, 0, 2],
  ['server', 'Server', server, 1, 2],
];

// makePanels makes them all. The answer draws a look at the server.
export function makePanels(ask) {
  const made = PANELS.map(([id, title, build, two, three]) => {
    const panel = build(ask);
    const element = make('section', { id, class: 'panel', 'aria-labelledby': id + '-title', tabindex: -1 },
      make('h2', { id: id + '-title' }, title));
    element.append(...panel.charts.map((c) => c.element), ...panel.parts.map((p) => p.element || p));
    return { ...panel, id, element, places: [0, 0, two, three] };
  });
  arrange(made);
  new ResizeObserver(() => arrange(made)).observe($('main'));
  return (i, r, h, state) => {
    arrange(made);
    for (const panel of made) {
      panel.element.hidden = Boolean(panel.present) && !panel.present(i, r);
      if (!panel.element.hidden) {
        panel.update(i, r, h, state);
      }
    }
  };
}

// arrange puts the panels into one, two or three columns.
function arrange(made) {
  const main = $('main');
  const n = main.clientWidth >= 1500 ? 3 : main.clientWidth >= 900 ? 2 : 1;
  if (main.children.length === n) {
    return;
  }
  const columns = Array.from({ length: n }, () => make('div', { class: 'column' }));
  for (const { element, places } of made) {
    columns[places[n]].append(element);
  }
  main.replaceChildren(...columns);
}

// --- the first row: the figures to look at first ---

const last = (history, key) => {
  const known = history[key].filter((v) => v !== null).slice(-1)[0];
  return known === undefined ? null : known;
};

// makeTiles makes the row of figures. The answer draws them.
export function makeTiles() {
  const tile = (label, panel) => {
    const value = make('b', {});
    const small = make('small', {});
    $('tiles').append(make('a', { href: '#' + panel, class: 'tile' }, make('span', {}, label), value, small));
    return (words, more, field, raw) => {
      say(value, words);
      say(small, more);
      if (field) {
        value.dataset.field = field;
        value.dataset.value = raw;
      }
    };
  };
  const [ops, p99, used, connected, hits, cpu, errors, lag] = [['Commands/s', 'throughput'], ['p99 latency', 'latency'],
    ['Memory', 'memory'], ['Clients', 'clients'], ['Hit rate', 'throughput'], ['Processor', 'turns'],
    ['Errors/s', 'throughput'], ['Replicas', 'replication']].map(([label, panel]) => tile(label, panel));
  return (i, history) => {
    const known = (v, form) => v === null ? '–' : form(v);
    ops(whole(i.instantaneous_ops_per_sec), `${counted(last(history, 'turns') || 0)} turns/s`,
      'instantaneous_ops_per_sec',
      i.instantaneous_ops_per_sec);
    p99(known(last(history, 'p99'), micros), `max ${known(last(history, 'max'), micros)}`);
    used(bytes(i.used_memory), i.maxmemory === '0' ? 'no limit'
      : `${Math.round(100 * i.used_memory / i.maxmemory)} % of ${bytes(i.maxmemory)}`, 'used_memory', i.used_memory);
    connected(counted(i.connected_clients), `of at most ${counted(i.maxclients)}`, 'connected_clients',
      i.connected_clients);
    const [got, missed] = [last(history, 'hits') || 0, last(history, 'misses') || 0];
    hits(got + missed ? percent(100 * got / (got + missed)) : '–', `${whole(got + missed)} reads/s`);
    cpu(known(last(history, 'cpu'), percent), 'of one core');
    errors(known(last(history, 'errors'), whole), `${counted(i.total_error_replies)} in all`);
    if (i.role === 'slave') {
      lag(i.master_link_status, 'the link to the primary');
    } else {
      const behind = last(history, 'lag');
      lag(counted(i.connected_slaves), behind === null ? 'none connected' : `${bytes(behind)} behind`);
    }
  };
}

// --- the line of state ---

const SIGNS = { bad: '✖', warn: '▲', note: '●' };
const WORDS = { bad: 'Wrong', warn: 'Warning', note: 'Note' };

// drawState says what is wrong now, since when, and where to look.
export function drawState(h, now) {
  const wrong = h.now.filter((t) => t.level !== 'note');
  const state = $('state');
  state.className = 'state ' + (h.now.some((t) => t.level === 'bad') ? 'bad' : wrong.length ? 'warn' : 'good');
  say($('sign'), wrong.length ? SIGNS[wrong[0].level] : '✔');
  say($('said'), wrong.length === 0 ? 'Healthy' : wrong.length === 1 ? '1 problem' : `${wrong.length} problems`);
  drawTroubles($('troubles'), h.now,
    (t) => `since ${when(t.since / 1000)}, ${seconds(Math.max(0, (now - t.since) / 1000))}`);
  $('past').hidden = !h.past.length;
  say($('past').firstElementChild, h.past.length === 1 ? '1 problem is over' : `${h.past.length} problems are over`);
  drawTroubles($('past').lastElementChild, h.past, (t) => `${when(t.since / 1000)} to ${clock(t.end / 1000)}`);
}

// drawTroubles keeps the elements of troubles that are there already: a screen reader hears only what is new.
function drawTroubles(list, troubles, time) {
  while (list.children.length > troubles.length) {
    list.lastChild.remove();
  }
  troubles.forEach((t, n) => {
    let row = list.children[n];
    if (!row) {
      row = make('li', {}, make('span', { class: 'sign', role: 'img' }), make('span', { class: 'text' }),
        make('span', { class: 'soft' }), make('a', {}));
      list.append(row);
    }
    const [sign, words, since, link] = row.children;
    row.className = t.level;
    row.dataset.id = t.id;
    say(sign, SIGNS[t.level]);
    sign.setAttribute('aria-label', WORDS[t.level]);
    say(words, t.text);
    say(since, time(t));
    link.href = '#' + t.panel;
    say(link, `See ${($(t.panel + '-title') || { textContent: t.panel }).textContent.toLowerCase()}`);
  });
}

