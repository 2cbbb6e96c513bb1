// The live page. It asks the server for what it shows, and writes it with textContent alone: names are never markup.
'use strict';

const $ = (id) => document.getElementById(id);
const SVG = 'http://www.w3.org/2000/svg';
const STATE_EVERY = 2000;
let day = false, paused = false, cursor = null, histories = { minutes: null, day: null }, last = null, timer = 0;

// --- elements ---

function make(tag, attributes, ...children) {
  const svg = ['svg', 'polyline', 'line', 'rect'].includes(tag);
  const e = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
  for (const c of children) e.append(c instanceof Node ? c : document.createTextNode(String(c)));
  return e;
}

// --- numbers ---

const whole = (n) => counted(Math.round(n));
const counted = (n) => Number(n).toLocaleString('en', { maximumFractionDigits: 2 });
function bytes(n) {
  n = Number(n);
  if (Math.abs(n) < 1024) return counted(Math.round(n)) + ' B';
  const units = ['KB', 'MB', 'GB', 'TB'];
  let u = -1;
  while (Math.abs(n) >= 1024 && u < units.length - 1) { n /= 1024; u++; }
  return n.toFixed(2) + ' ' + units[u];
}
function micros(n) {
  n = Number(n);
  if (n < 1000) return counted(n) + ' µs';
  return n < 1e6 ? (n / 1e3).toFixed(2) + ' ms' : (n / 1e6).toFixed(2) + ' s';
}
function seconds(n) {
  n = Number(n);
  if (n < 0) return '–';
  const d = Math.floor(n / 86400), h = Math.floor(n % 86400 / 3600), m = Math.floor(n % 3600 / 60);
  return d ? `${d} d ${h} h` : h ? `${h} h ${m} min` : m ? `${m} min ${Math.floor(n % 60)} s` : `${n} s`;
}
const clock = (unix) => unix > 0 ? new Date(unix * 1000).toLocaleTimeString('en-GB') : '–';
const when = (unix) => unix > 0 ? new Date(unix * 1000).toLocaleString('en-GB') : '–';
const kilo = (n) => bytes(Number(n) * 1024) + '/s';
const asIs = (s) => s;

// --- what INFO says ---

function parseInfo(text) {
  const fields = {};
  for (const line of (text || '').split('\r\n')) {
    const at = line.indexOf(':');
    if (at > 0 && line[0] !== '#') fields[line.slice(0, at)] = line.slice(at + 1);
  }
  return fields;
}
function parts(value) {
  const all = {};
  for (const part of value.split(',')) {
    const at = part.indexOf('=');
    all[part.slice(0, at)] = part.slice(at + 1);
  }
  return all;
}
const family = (info, prefix) => Object.entries(info).filter(([k]) => k.startsWith(prefix)).map(([k, v]) => [k.slice(prefix.length), v]);

// --- pieces of panels ---

// figures shows fields of INFO. Each keeps its raw value beside it.
function figures(info, rows) {
  const list = make('dl', { class: 'figures' });
  for (const [label, field, form] of rows) {
    if (!(field in info)) continue;
    list.append(make('div', {}, make('dt', {}, label),
      make('dd', { 'data-field': field, 'data-value': info[field], title: `${field}: ${info[field]}` }, (form || counted)(info[field]))));
  }
  return list;
}

// table has columns [title, key or function, form, kind]; kind "n" is a number, "name" a name of a user's.
function table(caption, columns, rows, none) {
  if (!rows || !rows.length) return make('p', { class: 'none' }, none || `${caption}: none`);
  const body = make('tbody');
  for (const row of rows) {
    const tr = make('tr');
    for (const [, key, form, kind] of columns) {
      const v = typeof key === 'function' ? key(row) : row[key];
      tr.append(make('td', { class: kind || '' }, v === undefined || v === null ? '' : (form || asIs)(v)));
    }
    body.append(tr);
  }
  const head = make('tr', {}, ...columns.map(([title, , , kind]) => make('th', { scope: 'col', class: kind === 'n' ? 'n' : '' }, title)));
  return make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
    make('table', {}, make('caption', {}, caption), make('thead', {}, head), body));
}

function bars(rows, form) {
  const all = make('div', { class: 'bars' });
  const most = Math.max(1, ...rows.map((r) => Number(r[1])));
  for (const [name, value, field] of rows) {
    const bar = make('svg', { class: 'track', viewBox: '0 0 100 10', preserveAspectRatio: 'none', width: '100%', 'aria-hidden': 'true' },
      make('rect', { width: Math.max(0, 100 * value / most), height: 10 }));
    all.append(make('div', { class: 'row' }, make('span', {}, name), bar,
      make('span', { 'data-field': field, 'data-value': value, title: counted(value) }, form(value))));
  }
  return all;
}

// chart draws one or two series of the history on one scale. The arrow keys move along it.
function chart(title, lines) {
  const box = make('div');
  const h = histories[day ? 'day' : 'minutes'];
  if (!h || h.at.length < 2) {
    box.append(make('p', { class: 'none' }, `${title}: the history begins`));
    return box;
  }
  const from = h.at[0], to = h.at[h.at.length - 1], most = Math.max(1e-9, ...lines.map(([key]) => Math.max(...h[key])));
  const x = (t) => 600 * (t - from) / Math.max(1, to - from), y = (v) => 90 - 84 * v / most;
  const svg = make('svg', { class: 'chart', viewBox: '0 0 600 92', preserveAspectRatio: 'none', tabindex: 0, role: 'img', 'data-chart': title },
    make('line', { x1: 0, x2: 600, y1: 90, y2: 90 }));
  const step = day ? 60 : 1;
  lines.forEach(([key], i) => {
    let run = [];
    const flush = () => { if (run.length) svg.append(make('polyline', { class: 'ab'[i], points: run.join(' ') })); run = []; };
    h.at.forEach((t, j) => {
      if (j && t - h.at[j - 1] > 3 * step) flush(); // a gap
      run.push(`${x(t).toFixed(1)},${y(h[key][j]).toFixed(1)}`);
    });
    flush();
  });
  let at = h.at.length - 1;
  if (cursor !== null) at = h.at.reduce((best, t, j) => Math.abs(t - cursor) < Math.abs(h.at[best] - cursor) ? j : best, at);
  if (cursor !== null) svg.append(make('line', { class: 'cursor', x1: x(h.at[at]), x2: x(h.at[at]), y1: 0, y2: 90 }));
  const said = lines.map(([key, name, form]) => `${name} ${form(h[key][at])}`);
  svg.setAttribute('aria-label', `${title} at ${clock(h.at[at])}: ${said.join(', ')}`);
  svg.addEventListener('keydown', (e) => {
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[e.key];
    if (!move) return;
    e.preventDefault();
    const to = at + move * (e.shiftKey ? 10 : 1);
    cursor = to >= h.at.length - 1 ? null : h.at[Math.max(0, to)];
    draw();
  });
  const legend = make('div', { class: 'legend' }, make('span', { class: 'soft' }, clock(h.at[at])));
  lines.forEach(([key, name, form], i) => legend.append(make('span', { class: 'ab'[i] }, `${name} ${form(h[key][at])}, at most ${form(Math.max(...h[key]))}`)));
  box.append(svg, legend);
  return box;
}

// --- panels: id, title, what is in it; nothing is no panel ---

const panels = [
  ['throughput', 'Throughput', (i) => [
    chart('Commands a second', [['ops', 'commands/s', whole]]),
    chart('Network', [['in', 'in', (n) => bytes(n) + '/s'], ['out', 'out', (n) => bytes(n) + '/s']]),
    figures(i, [['Commands a second', 'instantaneous_ops_per_sec'], ['Commands', 'total_commands_processed'], ['In', 'instantaneous_input_kbps', kilo],
      ['Out', 'instantaneous_output_kbps', kilo], ['Hits', 'keyspace_hits'], ['Misses', 'keyspace_misses'], ['Expired', 'expired_keys'],
      ['Evicted', 'evicted_keys'], ['Error replies', 'total_error_replies']])]],
  ['latency', 'Latency', (i, r) => {
    const replies = family(i, 'reply_usec_').map(([name, v]) => ({ name, ...parts(v) })).sort((a, b) => b.calls - a.calls);
    const inCore = family(i, 'cmdstat_').map(([name, v]) => ({ name, ...parts(v), ...parts(i['latency_percentiles_usec_' + name] || '=') })).sort((a, b) => b.calls - a.calls);
    const micro = (key) => [key, key, micros, 'n'];
    return [
      replies.length ? table('From the socket read to the reply written', [['Command', 'name'], ['Calls', 'calls', counted, 'n'], ...['mean', 'p50', 'p99', 'p99.9', 'max'].map(micro)], replies.slice(0, 40)) : '',
      table('In the core', [['Command', 'name'], ['Calls', 'calls', counted, 'n'], ['Mean', 'usec_per_call', micros, 'n'], ...['p50', 'p99', 'p99.9'].map(micro),
        ['Failed', 'failed_calls', counted, 'n']], inCore.slice(0, 40), 'No command has run yet'),
      r.latency && r.latency.length ? table('Events past latency-monitor-threshold', [['Event', 0], ['Last', 1, when], ['ms', 2, counted, 'n'], ['Most', 3, counted, 'n']], r.latency) : ''];
  }],
  ['turns', 'Turn lengths', (i) => [
    chart('Mean turn', [['turn', 'mean', micros]]),
    chart('Processor, of one core', [['cpu', 'CPU %', whole]]),
    figures(i, [['Turns', 'eventloop_cycles'], ['Turns a second', 'instantaneous_eventloop_cycles_per_sec'], ['Mean lately', 'instantaneous_eventloop_duration_usec', micros],
      ['Longest', 'longest_turn_usec', micros], ['Longest, CPU', 'longest_turn_cpu_usec', micros], ['Most commands', 'most_commands_per_turn'],
      ['In commands', 'eventloop_duration_cmd_sum', micros], ['In duties', 'duties_duration_sum', micros]]),
    i.long_turns ? table('Turns that took the most CPU', [['Began', (t) => when(t.began / 1e6)], ['Took', 'usec', micros, 'n'], ['CPU', 'cpu_usec', micros, 'n']],
      i.long_turns.split(';').map(parts)) : '']],
  ['memory', 'Memory by purpose', (i) => {
    const purposes = family(i, 'memory_purpose_').map(([name, v]) => [name, Number(v), 'memory_purpose_' + name]).sort((a, b) => b[1] - a[1]);
    return [
      chart('Memory', [['rss', 'resident', bytes], ['used', 'used', bytes]]),
      figures(i, [['Used', 'used_memory', bytes], ['Resident', 'used_memory_rss', bytes], ['Peak', 'used_memory_peak', bytes], ['Limit', 'maxmemory', (n) => n === '0' ? 'none' : bytes(n)],
        ['Policy', 'maxmemory_policy', asIs], ['Data set', 'used_memory_dataset', bytes], ['Clients', 'mem_clients_normal', bytes], ['Fragmentation', 'mem_fragmentation_ratio']]),
      purposes.length ? bars(purposes, bytes) : ''];
  }],
  ['clients', 'Clients', (i) => [
    chart('Clients', [['clients', 'connected', counted], ['blocked', 'blocked', counted]]),
    figures(i, [['Connected', 'connected_clients'], ['Blocked', 'blocked_clients'], ['Tracking', 'tracking_clients'], ['At most', 'maxclients'], ['Came', 'total_connections_received'],
      ['Rejected', 'rejected_connections'], ['Largest input', 'client_recent_max_input_buffer', bytes], ['Largest output', 'client_recent_max_output_buffer', bytes]]),
    table('The first hundred by id', [['Id', 'id', asIs, 'n'], ['Address', 'addr'], ['Name', 'name', asIs, 'name'], ['User', 'user', asIs, 'name'], ['Age', 'age', seconds, 'n'], ['Idle', 'idle', seconds, 'n'],
      ['Db', 'db', asIs, 'n'], ['Memory', 'tot-mem', bytes, 'n'], ['Command', 'cmd']], clientRows, 'No clients')]],
  ['hotkeys', 'Hot keys', (i, r) => r.hotkeys && [table('By their share of all accesses', [['Key', 'key', asIs, 'name'], ['Db', 'db', asIs, 'n'], ['Share', 'share', (n) => Number(n).toFixed(2) + ' %', 'n'],
    ['Reads/s', 'reads', counted, 'n'], ['Writes/s', 'writes', counted, 'n'], ['Bytes/s', 'bytes', bytes, 'n'], ['CPU/s', 'cpu-usec', micros, 'n']], r.hotkeys, 'No key has been hot lately')]],
  ['bigkeys', 'Big keys', (i, r) => r.bigkeys && [table('Past 64 KB or 1,000 elements', [['Type', 'type'], ['Key', 'key', asIs, 'name'], ['Db', 'db', asIs, 'n'], ['Bytes', 'bytes', bytes, 'n'], ['Elements', 'elements', counted, 'n']],
    Object.entries(r.bigkeys).flatMap(([type, keys]) => (keys || []).map((k) => ({ type, ...k }))), 'No key is big')]],
  ['slowlog', 'Slow log', (i, r) => [table('Commands past slowlog-log-slower-than', [['Id', 0, asIs, 'n'], ['When', 1, when], ['Took', 2, micros, 'n'], ['Command', (e) => e[3].join(' '), asIs, 'name'], ['Client', (e) => `${e[4]} ${e[5]}`, asIs, 'name']],
    r.slowlog, 'No command has been slow')]],
  ['stalls', 'Stall log', (i, r) => r.stalls && [table('What held a turn', [['Id', 'id', asIs, 'n'], ['When', (s) => when(s.time / 1000)], ['Took', 'usec', micros, 'n'], ['CPU', 'cpu-usec', micros, 'n'], ['Kind', 'kind'],
    ['What', 'what', asIs, 'name'], ['Key', 'key', asIs, 'name'], ['Client', (s) => `${s.addr} ${s.name}`, asIs, 'name']], r.stalls, 'Nothing has held a turn')]],
  ['saves', 'Saves', (i) => [figures(i, [['Loading', 'loading'], ['Changes since the last save', 'rdb_changes_since_last_save'], ['Last save', 'rdb_last_save_time', when], ['Saving', 'rdb_bgsave_in_progress'],
    ['Last save’s end', 'rdb_last_bgsave_status', asIs], ['It took', 'rdb_last_bgsave_time_sec', seconds], ['This one’s time', 'rdb_current_bgsave_time_sec', seconds], ['Saves', 'rdb_saves'],
    ['Append-only file', 'aof_enabled', (n) => n === '1' ? 'on' : 'off'], ['Rewriting', 'aof_rewrite_in_progress'], ['Last rewrite’s end', 'aof_last_bgrewrite_status', asIs], ['Last write’s end', 'aof_last_write_status', asIs],
    ['Its size', 'aof_current_size', bytes], ['At the last rewrite', 'aof_base_size', bytes]])]],
  ['replicas', 'Replicas', (i) => [
    figures(i, [['Role', 'role', asIs], ['Replicas', 'connected_slaves'], ['Offset', 'master_repl_offset'], ['Primary', 'master_host', (h) => `${h}:${i.master_port}`], ['Link', 'master_link_status', asIs],
      ['Heard', 'master_last_io_seconds_ago', seconds], ['Backlog', 'repl_backlog_histlen', bytes], ['Failover', 'master_failover_state', asIs]]),
    table('Replicas', [['Address', (s) => `${s.ip}:${s.port}`], ['State', 'state'], ['Offset', 'offset', counted, 'n'], ['Lag', 'lag', seconds, 'n']],
      Object.entries(i).filter(([k]) => /^slave\d+$/.test(k)).map(([, v]) => parts(v)))]],
  ['cluster', 'Cluster slots', (i, r) => i.cluster_enabled === '1' && r.nodes && clusterPanel(r.nodes)],
  ['keyspace', 'Keyspace', (i) => [table('Databases', [['Db', 'db', asIs, 'n'], ['Keys', 'keys', counted, 'n'], ['With a deadline', 'expires', counted, 'n'], ['Mean time left', (d) => seconds(Math.round(d.avg_ttl / 1000)), asIs, 'n']],
    Object.entries(i).filter(([k]) => /^db\d+$/.test(k)).map(([k, v]) => ({ db: k.slice(2), ...parts(v) })), 'No keys')]],
];

function clusterPanel(text) {
  const nodes = text.trim().split('\n').map((line) => {
    const w = line.split(' ');
    const ranges = w.slice(8).filter((s) => s[0] !== '[').map((s) => s.split('-').map(Number)).map(([a, b]) => [a, b === undefined ? a : b]);
    return { id: w[0], address: w[1].split('@')[0], flags: w[2], link: w[7], ranges, slots: ranges.reduce((n, [a, b]) => n + b - a + 1, 0) };
  });
  const map = make('svg', { class: 'slots', viewBox: '0 0 16384 10', preserveAspectRatio: 'none', role: 'img', 'aria-label': 'Slots of this node and of others' });
  for (const n of nodes) {
    for (const [a, b] of n.ranges) map.append(make('rect', { x: a, width: b - a + 1, height: 10, class: n.flags.includes('myself') ? 'mine' : 'other' }));
  }
  return [map, table('Nodes', [['Node', (n) => n.id.slice(0, 8)], ['Address', 'address'], ['Flags', 'flags'], ['Link', 'link'], ['Slots', 'slots', counted, 'n'],
    ['Ranges', (n) => n.ranges.slice(0, 8).map(([a, b]) => a === b ? a : `${a}–${b}`).join(' ') + (n.ranges.length > 8 ? ' …' : ''), asIs, 'name']], nodes)];
}

// --- drawing ---

let clientRows = [];

function draw() {
  if (!last) return;
  const info = parseInfo(last.info), focused = focusPath();
  for (const [id, title, content] of panels) {
    let inner = null;
    try {
      inner = content(info, last.replies || {});
    } catch (e) { // one panel's trouble is not the others'
      inner = [make('p', { class: 'none' }, `This panel failed: ${e.message}`)];
    }
    let panel = $(id);
    if (!inner) {
      if (panel) panel.remove();
      continue;
    }
    const scrolled = panel ? [...panel.querySelectorAll('.scroll')].map((e) => [e.scrollTop, e.scrollLeft]) : [];
    if (!panel) {
      panel = make('section', { id, class: 'panel', 'aria-labelledby': id + '-title' });
      $('main').append(panel);
    }
    panel.replaceChildren(make('h2', { id: id + '-title' }, title), ...inner.filter(Boolean));
    panel.querySelectorAll('.scroll').forEach((e, n) => { if (scrolled[n]) [e.scrollTop, e.scrollLeft] = scrolled[n]; });
  }
  if (focused) focused();
  $('name').textContent = `spindle ${info.spindle_version || ''} ${info.redis_mode || ''} :${info.tcp_port || ''}`;
  $('what').textContent = `${info.role || ''}, Redis ${info.redis_version || ''}, up ${seconds(info.uptime_in_seconds || 0)}, process ${info.process_id || ''}`;
  document.title = `${info.instantaneous_ops_per_sec || 0}/s – spindle :${info.tcp_port || ''}`;
  $('console').hidden = !last.console;
  $('console-user').textContent = last.console;
}

// focusPath remembers what has the focus within the panels, which are made anew.
function focusPath() {
  const e = document.activeElement, panel = e && e.closest('main .panel');
  if (!panel) return null;
  const n = [...panel.querySelectorAll('[tabindex]')].indexOf(e);
  return () => { const again = panel.querySelectorAll('[tabindex]')[n]; if (again) again.focus({ preventScroll: true }); };
}

function alarm(text) {
  $('alarm').hidden = !text;
  $('alarm').textContent = text;
  $('dot').className = 'dot ' + (text ? 'bad' : 'good');
}

// --- asking ---

async function ask(path, body) {
  const headers = {}, token = sessionStorage.getItem('token');
  if (token) headers.Authorization = 'Bearer ' + token;
  if (body) headers['Content-Type'] = 'application/json';
  const r = await fetch(path, { method: body ? 'POST' : 'GET', headers, body: body && JSON.stringify(body), cache: 'no-store' });
  if (r.status === 401) {
    $('login').hidden = false;
    $('refused').textContent = token ? 'That is not the token.' : '';
    sessionStorage.removeItem('token');
    if (document.activeElement === document.body) $('token').focus();
    throw new Error('a token is needed');
  }
  if (!r.ok) throw new Error(`${r.status}: ${(await r.text()).trim()}`);
  $('login').hidden = true;
  return r.json();
}

async function askHistory() {
  const name = day ? 'day' : 'minutes', known = histories[name];
  const since = known && known.at.length ? known.at[known.at.length - 1] : 0;
  const more = await ask(`/live/history?range=${name}&since=${since}`);
  if (known && since) {
    for (const key of Object.keys(known)) known[key] = known[key].concat(more[key]).slice(day ? -1440 : -600);
  } else {
    histories[name] = more;
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
      [last, clientRows] = [state, (await ask('/live/clients')).map(clientRow)];
      await askHistory();
      alarm(parseInfo(state.info).loading === '1' ? 'The server loads its data set.' : state.held > 1500 ? `A script runs, and others wait for it: ${seconds(Math.round(state.held / 1000))}.` : '');
      $('updated').textContent = `As of ${clock(state.at / 1000)}.`;
      draw();
    } else {
      alarm(`Something holds the turn: the core has not done its duties for ${seconds(Math.round(state.held / 1000))}. The figures are old.`);
    }
  } catch (e) {
    alarm(`No figures: ${e.message}`);
  }
  if (!paused) timer = setTimeout(look, STATE_EVERY);
}

function clientRow(line) {
  const row = {};
  for (const part of line.trim().split(' ')) {
    const at = part.indexOf('=');
    if (at > 0) row[part.slice(0, at)] = part.slice(at + 1);
  }
  return row;
}

// --- what the reader does ---

function setRange(isDay) {
  [day, cursor] = [isDay, null];
  $('minutes').setAttribute('aria-pressed', String(!day));
  $('day').setAttribute('aria-pressed', String(day));
  look();
}
function togglePause() {
  paused = !paused;
  $('pause').setAttribute('aria-pressed', String(paused));
  if (paused) clearTimeout(timer); else look();
}
const themes = ['auto', 'light', 'dark'];
function setTheme(theme) {
  if (theme === 'auto') document.documentElement.removeAttribute('data-theme');
  else document.documentElement.dataset.theme = theme;
  $('theme').textContent = 'Theme: ' + theme;
  localStorage.setItem('theme', theme);
}
const nextTheme = () => setTheme(themes[(themes.indexOf(localStorage.getItem('theme') || 'auto') + 1) % themes.length]);

$('minutes').addEventListener('click', () => setRange(false));
$('day').addEventListener('click', () => setRange(true));
$('pause').addEventListener('click', togglePause);
$('theme').addEventListener('click', nextTheme);
$('login').addEventListener('submit', (e) => {
  e.preventDefault();
  sessionStorage.setItem('token', $('token').value);
  $('token').value = '';
  look();
});

const typed = [];
let recalled = 0;
$('ask').addEventListener('submit', async (e) => {
  e.preventDefault();
  const line = $('line').value;
  if (!line.trim()) return;
  typed.push(line);
  recalled = typed.length;
  $('line').value = '';
  $('output').append(make('span', { class: 'typed' }, `> ${line}\n`));
  try {
    const a = await ask('/live/console', { line });
    $('output').append(make('span', { class: a.error ? 'wrong' : 'reply' }, a.text.replace(/\n?$/, '\n')));
  } catch (error) {
    $('output').append(make('span', { class: 'wrong' }, error.message + '\n'));
  }
  while ($('output').childNodes.length > 200) $('output').firstChild.remove();
  $('output').scrollTop = $('output').scrollHeight;
});
$('line').addEventListener('keydown', (e) => {
  const move = { ArrowUp: -1, ArrowDown: 1 }[e.key];
  if (move && typed.length) {
    e.preventDefault();
    recalled = Math.min(typed.length, Math.max(0, recalled + move));
    $('line').value = typed[recalled] || '';
  }
  if (e.key === 'Escape') $('line').blur();
});
document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.tagName === 'INPUT') return;
  const act = { 1: () => setRange(false), 2: () => setRange(true), p: togglePause, t: nextTheme, '/': () => $('line').focus() }[e.key];
  if (!act) return;
  e.preventDefault();
  act();
});

setTheme(localStorage.getItem('theme') || 'auto');
look();
