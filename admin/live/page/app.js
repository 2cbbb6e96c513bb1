// The live page. It asks the server for what it shows, and writes it with textContent alone: names are never markup.
'use strict';

const STATE_EVERY = 2000; // ms between two looks at the server
const HELD = 1500; // ms since the core's duties, past which something holds the turn
const POINTS = { minutes: 600, day: 1440 }; // of the history
const STEP = { minutes: 1, day: 60 }; // seconds between two of its points
const MOST_ROWS = 40; // of a table of commands
const MOST_TYPED = 200; // pieces of the console's output

let range = 'minutes'; // or day: which history the charts show
let paused = false;
let cursor = null; // the time that the charts tell of, Unix s; null is the last one
let last = null; // the last look at the server
let timer = 0; // of the next look
const histories = { minutes: null, day: null };

// --- elements ---

const SVG = 'http://www.w3.org/2000/svg';
const SVG_TAGS = ['svg', 'polyline', 'line', 'rect'];

const $ = (id) => document.getElementById(id);

function make(tag, attributes, ...children) {
  const e = SVG_TAGS.includes(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    e.setAttribute(name, value);
  }
  for (const child of children) {
    e.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return e;
}

// say writes a text only if it is another one: what a screen reader has heard it should not hear again.
function say(id, text) {
  if ($(id).textContent !== text) {
    $(id).textContent = text;
  }
}

// --- numbers ---

const asIs = (s) => s;
const counted = (n) => Number(n).toLocaleString('en', { maximumFractionDigits: 2 });
const whole = (n) => counted(Math.round(n));
const percent = (n) => Number(n).toFixed(2) + ' %';
const onOff = (n) => n === '1' ? 'on' : 'off';
const clock = (unix) => unix > 0 ? new Date(unix * 1000).toLocaleTimeString('en-GB') : '–';
const when = (unix) => unix > 0 ? new Date(unix * 1000).toLocaleString('en-GB') : '–';
const perSecond = (n) => bytes(n) + '/s';
const kilo = (n) => perSecond(Number(n) * 1024);

function bytes(n) {
  n = Number(n);
  if (Math.abs(n) < 1024) {
    return whole(n) + ' B';
  }
  const units = ['KB', 'MB', 'GB', 'TB'];
  let unit = -1;
  while (Math.abs(n) >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return n.toFixed(2) + ' ' + units[unit];
}

function micros(n) {
  n = Number(n);
  if (n < 1e3) {
    return counted(n) + ' µs';
  }
  return n < 1e6 ? (n / 1e3).toFixed(2) + ' ms' : (n / 1e6).toFixed(2) + ' s';
}

function seconds(n) {
  n = Number(n);
  if (n < 0) {
    return '–';
  }
  const days = Math.floor(n / 86400);
  const hours = Math.floor(n % 86400 / 3600);
  const minutes = Math.floor(n % 3600 / 60);
  if (days) {
    return `${days} d ${hours} h`;
  }
  if (hours) {
    return `${hours} h ${minutes} min`;
  }
  return minutes ? `${minutes} min ${Math.floor(n % 60)} s` : `${n} s`;
}

// --- what INFO says ---

function parseInfo(text) {
  const fields = {};
  for (const line of (text || '').split('\r\n')) {
    const at = line.indexOf(':');
    if (at > 0 && line[0] !== '#') {
      fields[line.slice(0, at)] = line.slice(at + 1);
    }
  }
  return fields;
}

// parts are those of a value such as "keys=3,expires=0".
function parts(value) {
  const all = {};
  for (const part of value.split(',')) {
    const at = part.indexOf('=');
    all[part.slice(0, at)] = part.slice(at + 1);
  }
  return all;
}

// family is the fields whose names begin alike, without that beginning.
function family(info, prefix) {
  return Object.entries(info)
    .filter(([name]) => name.startsWith(prefix))
    .map(([name, value]) => [name.slice(prefix.length), value]);
}

// clientRow is a line of CLIENT LIST.
function clientRow(line) {
  const row = {};
  for (const part of line.trim().split(' ')) {
    const at = part.indexOf('=');
    if (at > 0) {
      row[part.slice(0, at)] = part.slice(at + 1);
    }
  }
  return row;
}

// --- pieces of panels ---

// figures shows fields of INFO: rows of label, field and form. Each keeps its raw value beside it.
function figures(info, rows) {
  const list = make('dl', { class: 'figures' });
  for (const [label, field, form] of rows) {
    if (!(field in info)) {
      continue;
    }
    const raw = info[field];
    const shown = (form || counted)(raw);
    list.append(make('div', {},
      make('dt', {}, label),
      make('dd', { 'data-field': field, 'data-value': raw, title: `${field}: ${raw}` }, shown)));
  }
  return list;
}

// Columns of a table. key is a name in a row, or a function of it.
const column = (title, key, form = asIs) => ({ title, key, form, kind: '' });
const numbers = (title, key, form = counted) => ({ title, key, form, kind: 'n' });
const names = (title, key) => ({ title, key, form: asIs, kind: 'name' }); // a user's, or made by one

function table(caption, columns, rows, none) {
  if (!rows || !rows.length) {
    return make('p', { class: 'none' }, none || `${caption}: none`);
  }
  const head = make('tr');
  for (const { title, kind } of columns) {
    head.append(make('th', { scope: 'col', class: kind === 'n' ? 'n' : '' }, title));
  }
  const body = make('tbody');
  for (const row of rows) {
    const tr = make('tr');
    for (const { key, form, kind } of columns) {
      const value = typeof key === 'function' ? key(row) : row[key];
      tr.append(make('td', { class: kind }, value === undefined || value === null ? '' : form(value)));
    }
    body.append(tr);
  }
  return make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
    make('table', {}, make('caption', {}, caption), make('thead', {}, head), body));
}

// bars shows rows of name, value and field, each with a bar as long as its value.
function bars(rows, form) {
  const all = make('div', { class: 'bars' });
  const most = Math.max(1, ...rows.map(([, value]) => value));
  for (const [name, value, field] of rows) {
    const bar = make('svg', {
      class: 'track', viewBox: '0 0 100 10', preserveAspectRatio: 'none', width: '100%', 'aria-hidden': 'true',
    }, make('rect', { width: Math.max(0, 100 * value / most), height: 10 }));
    all.append(make('div', { class: 'row' },
      make('span', {}, name),
      bar,
      make('span', { 'data-field': field, 'data-value': value, title: counted(value) }, form(value))));
  }
  return all;
}

// --- charts ---

const WIDE = 600; // of a chart's own units
const HIGH = 92;
const BASE = 90; // where zero is
const CLASSES = ['a', 'b'];

// chart draws one or two series of the history on one scale: lines of series, name and form. The arrow keys move along.
function chart(title, lines) {
  const h = histories[range];
  if (!h || h.at.length < 2) {
    return make('div', {}, make('p', { class: 'none' }, `${title}: the history begins`));
  }
  const from = h.at[0];
  const to = h.at[h.at.length - 1];
  const most = Math.max(1e-9, ...lines.map(([key]) => Math.max(...h[key])));
  const x = (t) => WIDE * (t - from) / Math.max(1, to - from);
  const y = (v) => BASE - (BASE - 6) * v / most;
  const svg = make('svg', {
    class: 'chart', viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: 'none', tabindex: 0, role: 'img',
    'data-chart': title,
  }, make('line', { x1: 0, x2: WIDE, y1: BASE, y2: BASE }));
  lines.forEach(([key], i) => {
    for (const points of runs(h, key, x, y)) {
      svg.append(make('polyline', { class: CLASSES[i], points: points.join(' ') }));
    }
  });
  const at = cursor === null ? h.at.length - 1 : nearest(h.at, cursor);
  if (cursor !== null) {
    const there = x(h.at[at]);
    svg.append(make('line', { class: 'cursor', x1: there, x2: there, y1: 0, y2: BASE }));
  }
  const said = lines.map(([key, name, form]) => `${name} ${form(h[key][at])}`);
  svg.setAttribute('aria-label', `${title} at ${clock(h.at[at])}: ${said.join(', ')}`);
  svg.addEventListener('keydown', (e) => moveCursor(e, h.at, at));
  return make('div', {}, svg, legend(h, lines, at));
}

// runs are the points of a series, cut where the history has a gap.
function runs(h, key, x, y) {
  const all = [];
  h.at.forEach((t, j) => {
    if (!j || t - h.at[j - 1] > 3 * STEP[range]) {
      all.push([]);
    }
    all[all.length - 1].push(`${x(t).toFixed(1)},${y(h[key][j]).toFixed(1)}`);
  });
  return all;
}

// nearest is which of some times is nearest to t.
function nearest(times, t) {
  let best = 0;
  for (let j = 1; j < times.length; j++) {
    if (Math.abs(times[j] - t) < Math.abs(times[best] - t)) {
      best = j;
    }
  }
  return best;
}

function moveCursor(e, times, at) {
  const move = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[e.key];
  if (!move) {
    return;
  }
  e.preventDefault();
  const to = at + move * (e.shiftKey ? 10 : 1);
  cursor = to >= times.length - 1 ? null : times[Math.max(0, to)];
  draw();
}

function legend(h, lines, at) {
  const all = make('div', { class: 'legend' }, make('span', { class: 'soft' }, clock(h.at[at])));
  lines.forEach(([key, name, form], i) => {
    const most = Math.max(...h[key]);
    all.append(make('span', { class: CLASSES[i] }, `${name} ${form(h[key][at])}, at most ${form(most)}`));
  });
  return all;
}

// --- panels: what each shows of INFO (i) and of the other replies (r); nothing is no panel ---

function throughput(i) {
  return [
    chart('Commands a second', [['ops', 'commands/s', whole]]),
    chart('Network', [['in', 'in', perSecond], ['out', 'out', perSecond]]),
    figures(i, [
      ['Commands a second', 'instantaneous_ops_per_sec'],
      ['Commands', 'total_commands_processed'],
      ['In', 'instantaneous_input_kbps', kilo],
      ['Out', 'instantaneous_output_kbps', kilo],
      ['Hits', 'keyspace_hits'],
      ['Misses', 'keyspace_misses'],
      ['Expired', 'expired_keys'],
      ['Evicted', 'evicted_keys'],
      ['Error replies', 'total_error_replies'],
    ]),
  ];
}

// busiest are rows of commands, those with most calls first.
const busiest = (rows) => rows.sort((a, b) => b.calls - a.calls).slice(0, MOST_ROWS);

function latency(i, r) {
  const replies = family(i, 'reply_usec_').map(([name, v]) => ({ name, ...parts(v) }));
  const inCore = family(i, 'cmdstat_').map(([name, v]) => {
    const percentiles = i['latency_percentiles_usec_' + name] || '=';
    return { name, ...parts(v), ...parts(percentiles) };
  });
  const micro = (key) => numbers(key, key, micros);
  const shown = [];
  if (replies.length) {
    shown.push(table('From the socket read to the reply written', [
      column('Command', 'name'),
      numbers('Calls', 'calls'),
      micro('mean'),
      micro('p50'),
      micro('p99'),
      micro('p99.9'),
      micro('max'),
    ], busiest(replies)));
  }
  shown.push(table('In the core', [
    column('Command', 'name'),
    numbers('Calls', 'calls'),
    numbers('Mean', 'usec_per_call', micros),
    micro('p50'),
    micro('p99'),
    micro('p99.9'),
    numbers('Failed', 'failed_calls'),
  ], busiest(inCore), 'No command has run yet'));
  if (r.latency && r.latency.length) {
    shown.push(table('Events past latency-monitor-threshold', [
      column('Event', 0),
      column('Last', 1, when),
      numbers('ms', 2),
      numbers('Most', 3),
    ], r.latency));
  }
  return shown;
}

function turns(i) {
  const shown = [
    chart('Mean turn', [['turn', 'mean', micros]]),
    chart('Processor, of one core', [['cpu', 'CPU %', whole]]),
    figures(i, [
      ['Turns', 'eventloop_cycles'],
      ['Turns a second', 'instantaneous_eventloop_cycles_per_sec'],
      ['Mean lately', 'instantaneous_eventloop_duration_usec', micros],
      ['Longest', 'longest_turn_usec', micros],
      ['Longest, CPU', 'longest_turn_cpu_usec', micros],
      ['Most commands', 'most_commands_per_turn'],
      ['In commands', 'eventloop_duration_cmd_sum', micros],
      ['In duties', 'duties_duration_sum', micros],
    ]),
  ];
  if (i.long_turns) {
    shown.push(table('Turns that took the most CPU', [
      column('Began', (t) => when(t.began / 1e6)),
      numbers('Took', 'usec', micros),
      numbers('CPU', 'cpu_usec', micros),
    ], i.long_turns.split(';').map(parts)));
  }
  return shown;
}

function memory(i) {
  const purposes = family(i, 'memory_purpose_')
    .map(([name, v]) => [name, Number(v), 'memory_purpose_' + name])
    .sort((a, b) => b[1] - a[1]);
  const shown = [
    chart('Memory', [['rss', 'resident', bytes], ['used', 'used', bytes]]),
    figures(i, [
      ['Used', 'used_memory', bytes],
      ['Resident', 'used_memory_rss', bytes],
      ['Peak', 'used_memory_peak', bytes],
      ['Limit', 'maxmemory', (n) => n === '0' ? 'none' : bytes(n)],
      ['Policy', 'maxmemory_policy', asIs],
      ['Data set', 'used_memory_dataset', bytes],
      ['Clients', 'mem_clients_normal', bytes],
      ['Fragmentation', 'mem_fragmentation_ratio'],
    ]),
  ];
  if (purposes.length) {
    shown.push(bars(purposes, bytes));
  }
  return shown;
}

function clients(i) {
  return [
    chart('Clients', [['clients', 'connected', counted], ['blocked', 'blocked', counted]]),
    figures(i, [
      ['Connected', 'connected_clients'],
      ['Blocked', 'blocked_clients'],
      ['Tracking', 'tracking_clients'],
      ['At most', 'maxclients'],
      ['Came', 'total_connections_received'],
      ['Rejected', 'rejected_connections'],
      ['Largest input', 'client_recent_max_input_buffer', bytes],
      ['Largest output', 'client_recent_max_output_buffer', bytes],
    ]),
    table('The first hundred by id', [
      numbers('Id', 'id', asIs),
      column('Address', 'addr'),
      names('Name', 'name'),
      names('User', 'user'),
      numbers('Age', 'age', seconds),
      numbers('Idle', 'idle', seconds),
      numbers('Db', 'db', asIs),
      numbers('Memory', 'tot-mem', bytes),
      column('Command', 'cmd'),
    ], last.clients.map(clientRow), 'No clients'),
  ];
}

function hotKeys(i, r) {
  return r.hotkeys && [
    table('By their share of all accesses', [
      names('Key', 'key'),
      numbers('Db', 'db', asIs),
      numbers('Share', 'share', percent),
      numbers('Reads/s', 'reads'),
      numbers('Writes/s', 'writes'),
      numbers('Bytes/s', 'bytes', bytes),
      numbers('CPU/s', 'cpu-usec', micros),
    ], r.hotkeys, 'No key has been hot lately'),
  ];
}

function bigKeys(i, r) {
  if (!r.bigkeys) {
    return null;
  }
  const rows = [];
  for (const [type, keys] of Object.entries(r.bigkeys)) {
    rows.push(...(keys || []).map((k) => ({ type, ...k })));
  }
  return [
    table('Past 64 KB or 1,000 elements', [
      column('Type', 'type'),
      names('Key', 'key'),
      numbers('Db', 'db', asIs),
      numbers('Bytes', 'bytes', bytes),
      numbers('Elements', 'elements'),
    ], rows, 'No key is big'),
  ];
}

function slowLog(i, r) {
  return [
    table('Commands past slowlog-log-slower-than', [
      numbers('Id', 0, asIs),
      column('When', 1, when),
      numbers('Took', 2, micros),
      names('Command', (e) => e[3].join(' ')),
      names('Client', (e) => `${e[4]} ${e[5]}`),
    ], r.slowlog, 'No command has been slow'),
  ];
}

function stalls(i, r) {
  return r.stalls && [
    table('What held a turn', [
      numbers('Id', 'id', asIs),
      column('When', (s) => when(s.time / 1000)),
      numbers('Took', 'usec', micros),
      numbers('CPU', 'cpu-usec', micros),
      column('Kind', 'kind'),
      names('What', 'what'),
      names('Key', 'key'),
      names('Client', (s) => `${s.addr} ${s.name}`),
    ], r.stalls, 'Nothing has held a turn'),
  ];
}

function saves(i) {
  return [
    figures(i, [
      ['Loading', 'loading'],
      ['Changes since the last save', 'rdb_changes_since_last_save'],
      ['Last save', 'rdb_last_save_time', when],
      ['Saving', 'rdb_bgsave_in_progress'],
      ['Last save’s end', 'rdb_last_bgsave_status', asIs],
      ['It took', 'rdb_last_bgsave_time_sec', seconds],
      ['This one’s time', 'rdb_current_bgsave_time_sec', seconds],
      ['Saves', 'rdb_saves'],
      ['Append-only file', 'aof_enabled', onOff],
      ['Rewriting', 'aof_rewrite_in_progress'],
      ['Last rewrite’s end', 'aof_last_bgrewrite_status', asIs],
      ['Last write’s end', 'aof_last_write_status', asIs],
      ['Its size', 'aof_current_size', bytes],
      ['At the last rewrite', 'aof_base_size', bytes],
    ]),
  ];
}

function replicas(i) {
  const rows = Object.entries(i)
    .filter(([name]) => /^slave\d+$/.test(name))
    .map(([, value]) => parts(value));
  return [
    figures(i, [
      ['Role', 'role', asIs],
      ['Replicas', 'connected_slaves'],
      ['Offset', 'master_repl_offset'],
      ['Primary', 'master_host', (host) => `${host}:${i.master_port}`],
      ['Link', 'master_link_status', asIs],
      ['Heard', 'master_last_io_seconds_ago', seconds],
      ['Backlog', 'repl_backlog_histlen', bytes],
      ['Failover', 'master_failover_state', asIs],
    ]),
    table('Replicas', [
      column('Address', (s) => `${s.ip}:${s.port}`),
      column('State', 'state'),
      numbers('Offset', 'offset'),
      numbers('Lag', 'lag', seconds),
    ], rows),
  ];
}

function cluster(i, r) {
  if (i.cluster_enabled !== '1' || !r.nodes) {
    return null;
  }
  const nodes = r.nodes.trim().split('\n').map(clusterNode);
  const map = make('svg', {
    class: 'slots', viewBox: '0 0 16384 10', preserveAspectRatio: 'none', role: 'img',
    'aria-label': 'Slots of this node and of others',
  });
  for (const n of nodes) {
    const whose = n.flags.includes('myself') ? 'mine' : 'other';
    for (const [from, to] of n.ranges) {
      map.append(make('rect', { x: from, width: to - from + 1, height: 10, class: whose }));
    }
  }
  return [
    map,
    table('Nodes', [
      column('Node', (n) => n.id.slice(0, 8)),
      column('Address', 'address'),
      column('Flags', 'flags'),
      column('Link', 'link'),
      numbers('Slots', 'slots'),
      names('Ranges', (n) => someRanges(n.ranges)),
    ], nodes),
  ];
}

// clusterNode is a line of CLUSTER NODES. Slots on their way from or to the node are left out.
function clusterNode(line) {
  const words = line.split(' ');
  const ranges = words.slice(8)
    .filter((word) => word[0] !== '[')
    .map((word) => word.split('-').map(Number))
    .map(([from, to]) => [from, to === undefined ? from : to]);
  return {
    id: words[0],
    address: words[1].split('@')[0],
    flags: words[2],
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

function keyspace(i) {
  const rows = Object.entries(i)
    .filter(([name]) => /^db\d+$/.test(name))
    .map(([name, value]) => ({ db: name.slice(2), ...parts(value) }));
  return [
    table('Databases', [
      numbers('Db', 'db', asIs),
      numbers('Keys', 'keys'),
      numbers('With a deadline', 'expires'),
      numbers('Mean time left', (d) => seconds(Math.round(d.avg_ttl / 1000)), asIs),
    ], rows, 'No keys'),
  ];
}

// id, title and content of the panels, in their order
const panels = [
  ['throughput', 'Throughput', throughput],
  ['latency', 'Latency', latency],
  ['turns', 'Turn lengths', turns],
  ['memory', 'Memory by purpose', memory],
  ['clients', 'Clients', clients],
  ['hotkeys', 'Hot keys', hotKeys],
  ['bigkeys', 'Big keys', bigKeys],
  ['slowlog', 'Slow log', slowLog],
  ['stalls', 'Stall log', stalls],
  ['saves', 'Saves', saves],
  ['replicas', 'Replicas', replicas],
  ['cluster', 'Cluster slots', cluster],
  ['keyspace', 'Keyspace', keyspace],
];

// --- drawing ---

function draw() {
  if (!last) {
    return;
  }
  const info = parseInfo(last.info);
  const refocus = focused();
  for (const [id, title, content] of panels) {
    let inner;
    try {
      inner = content(info, last.replies || {});
    } catch (e) { // one panel's trouble is not the others'
      inner = [make('p', { class: 'none' }, `This panel failed: ${e.message}`)];
    }
    drawPanel(id, title, inner);
  }
  refocus();
  const port = info.tcp_port || '';
  say('name', `spindle ${info.spindle_version || ''} ${info.redis_mode || ''} :${port}`);
  say('what', `${info.role || ''}, Redis ${info.redis_version || ''}, ` +
    `up ${seconds(info.uptime_in_seconds || 0)}, process ${info.process_id || ''}`);
  document.title = `${info.instantaneous_ops_per_sec || 0}/s – spindle :${port}`;
  $('console').hidden = !last.console;
  say('console-user', last.console);
}

// drawPanel makes a panel anew. Its tables stay scrolled as they were.
function drawPanel(id, title, inner) {
  let panel = $(id);
  if (!inner) {
    if (panel) {
      panel.remove();
    }
    return;
  }
  if (!panel) {
    panel = make('section', { id, class: 'panel', 'aria-labelledby': id + '-title' });
    $('main').append(panel);
  }
  const scrolled = [...panel.querySelectorAll('.scroll')].map((e) => [e.scrollTop, e.scrollLeft]);
  panel.replaceChildren(make('h2', { id: id + '-title' }, title), ...inner);
  panel.querySelectorAll('.scroll').forEach((e, n) => {
    if (scrolled[n]) {
      [e.scrollTop, e.scrollLeft] = scrolled[n];
    }
  });
}

// focused remembers what has the focus within the panels, which are made anew. The function puts it back.
function focused() {
  const e = document.activeElement;
  const panel = e && e.closest('main .panel');
  if (!panel) {
    return () => {};
  }
  const places = () => [...panel.querySelectorAll('[tabindex]')];
  const at = places().indexOf(e);
  return () => {
    const again = places()[at];
    if (again) {
      again.focus({ preventScroll: true });
    }
  };
}

function alarm(text) {
  $('alarm').hidden = !text;
  say('alarm', text);
  $('dot').className = 'dot ' + (text ? 'bad' : 'good');
}

// --- asking ---

async function ask(path, body) {
  const headers = {};
  const token = sessionStorage.getItem('token');
  if (token) {
    headers.Authorization = 'Bearer ' + token;
  }
  if (body) {
    headers['Content-Type'] = 'application/json';
  }
  const method = body ? 'POST' : 'GET';
  const response = await fetch(path, { method, headers, body: body && JSON.stringify(body), cache: 'no-store' });
  if (response.status === 401) {
    askToken(token);
    throw new Error('a token is needed');
  }
  if (!response.ok) {
    throw new Error(`${response.status}: ${(await response.text()).trim()}`);
  }
  $('login').hidden = true;
  say('refused', '');
  return response.json();
}

// askToken has the reader give a token. refused is one that was given and is not the server's.
function askToken(refused) {
  $('login').hidden = false;
  if (refused) {
    say('refused', 'That is not the token.');
    sessionStorage.removeItem('token');
  }
  if (document.activeElement === document.body) {
    $('token').focus();
  }
}

async function askHistory() {
  const name = range;
  const known = histories[name];
  const since = known && known.at.length ? known.at[known.at.length - 1] : 0;
  const more = await ask(`/live/history?range=${name}&since=${since}`);
  if (!since) {
    histories[name] = more;
    return;
  }
  for (const key of Object.keys(known)) {
    known[key] = known[key].concat(more[key]).slice(-POINTS[name]);
  }
}

// look asks and draws, one after the other: an old look never draws over a new one.
let looks = Promise.resolve();
function look() {
  looks = looks.then(lookNow);
  return looks;
}

async function lookNow() {
  clearTimeout(timer);
  try {
    const state = await ask('/live/state');
    if (state.info) {
      await askHistory();
      last = state;
      alarm(troubleOf(state));
      say('updated', `As of ${clock(state.at / 1000)}.`);
      draw();
    } else {
      alarm(`Something holds the turn: the core has not done its duties for ${heldFor(state)}. The figures are old.`);
    }
  } catch (e) {
    alarm(`No figures: ${e.message}`);
  }
  if (!paused) {
    timer = setTimeout(look, STATE_EVERY);
  }
}

const heldFor = (state) => seconds(Math.round(state.held / 1000));

// troubleOf is what a server that answers has to complain of.
function troubleOf(state) {
  if (parseInfo(state.info).loading === '1') {
    return 'The server loads its data set.';
  }
  return state.held > HELD ? `A script runs, and others wait for it: ${heldFor(state)}.` : '';
}

// --- what the reader does ---

function setRange(name) {
  range = name;
  cursor = null;
  for (const id of ['minutes', 'day']) {
    $(id).setAttribute('aria-pressed', String(id === name));
  }
  look();
}

function togglePause() {
  paused = !paused;
  $('pause').setAttribute('aria-pressed', String(paused));
  if (paused) {
    clearTimeout(timer);
  } else {
    look();
  }
}

const themes = ['auto', 'light', 'dark'];

function setTheme(theme) {
  if (theme === 'auto') {
    document.documentElement.removeAttribute('data-theme');
  } else {
    document.documentElement.dataset.theme = theme;
  }
  $('theme').textContent = 'Theme: ' + theme;
  localStorage.setItem('theme', theme);
}

function nextTheme() {
  const now = themes.indexOf(localStorage.getItem('theme') || 'auto');
  setTheme(themes[(now + 1) % themes.length]);
}

$('minutes').addEventListener('click', () => setRange('minutes'));
$('day').addEventListener('click', () => setRange('day'));
$('pause').addEventListener('click', togglePause);
$('theme').addEventListener('click', nextTheme);
$('login').addEventListener('submit', (e) => {
  e.preventDefault();
  sessionStorage.setItem('token', $('token').value);
  $('token').value = '';
  look();
});

// --- the console ---

const typed = []; // lines
let recalled = 0; // which of them the arrow keys are at

$('ask').addEventListener('submit', async (e) => {
  e.preventDefault();
  const line = $('line').value;
  if (!line.trim()) {
    return;
  }
  typed.push(line);
  recalled = typed.length;
  $('line').value = '';
  const output = $('output');
  output.append(make('span', { class: 'typed' }, `> ${line}\n`));
  try {
    const answer = await ask('/live/console', { line });
    output.append(make('span', { class: answer.error ? 'wrong' : 'reply' }, answer.text.replace(/\n?$/, '\n')));
  } catch (error) {
    output.append(make('span', { class: 'wrong' }, error.message + '\n'));
  }
  while (output.childNodes.length > MOST_TYPED) {
    output.firstChild.remove();
  }
  output.scrollTop = output.scrollHeight;
});

$('line').addEventListener('keydown', (e) => {
  const move = { ArrowUp: -1, ArrowDown: 1 }[e.key];
  if (move && typed.length) {
    e.preventDefault();
    recalled = Math.min(typed.length, Math.max(0, recalled + move));
    $('line').value = typed[recalled] || '';
  }
  if (e.key === 'Escape') {
    $('line').blur();
  }
});

const keys = {
  1: () => setRange('minutes'),
  2: () => setRange('day'),
  p: togglePause,
  t: nextTheme,
  '/': () => $('line').focus(),
};

document.addEventListener('keydown', (e) => {
  const act = keys[e.key];
  if (!act || e.ctrlKey || e.metaKey || e.altKey || e.target.tagName === 'INPUT') {
    return;
  }
  e.preventDefault();
  act();
});

setTheme(localStorage.getItem('theme') || 'auto');
look();
