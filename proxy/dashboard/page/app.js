// The dashboard's page: it asks the dashboard once a second for all of a product, and shows it.

import { ask, hasToken, pathOf } from './ask.js';
import {
  $, button, bytes, cellsOf, clock, colourOf, column, counted, drawFigures, drawMap, make, makeChart, makeTable,
  mapWidth, micros, name, number, rate, say, seconds, shortId, show, state,
} from './draw.js';
import * as act from './actions.js';

const { page } = act;
const EVERY = 1000; // ms between two looks; more if a look takes long
const STATUS_EVERY = 5000; // ms between two looks at the products and the audit log
const POINTS = 600; // of the charts
const MOST_TROUBLES = 12;

let timer = 0;
let statusAt = 0; // when the products were read
let drawnSlots = ''; // the table that the map shows
let cells = [];
let cursor = 0; // the slot that the line under the map tells of
let points = [];

// --- panels ---

const charts = [
  makeChart('Requests a second', [['calls', 'proxies', rate], ['ops', 'servers', rate]]),
  makeChart('Latency at proxies', [['p99', 'p99', micros], ['mean', 'mean', micros]]),
  makeChart('Errors a second', [['errors', 'replies', rate], ['failures', 'no reply', rate]]),
];
$('charts').append(...charts.map((c) => c.element));

const traffic = (key, form) => (row) => row.traffic ? form(row.traffic[key]) : '';
const figure = (key, form) => (row) => row[key] === undefined ? '' : form(row[key]);

const groupTable = makeTable('Groups and servers', [
  name('Group, server', (row) => row.name),
  state('State', (row) => row.state),
  number('Slots', figure('slots', counted)),
  number('Keys', figure('keys', counted)),
  number('Memory', figure('memory', bytes)),
  number('Clients', figure('clients', counted)),
  number('Commands/s', figure('ops', rate)),
  number('By proxies/s', traffic('calls', rate)),
  number('Errors/s', traffic('errors', rate)),
  number('Mean', traffic('mean_us', micros)),
  number('p99', traffic('p99_us', micros)),
  number('Queue', traffic('queue', counted)),
  button('', (row) => {
    if (row.address) {
      return null;
    }
    const e = make('button', { 'data-do': 'manage', 'aria-label': `Manage ${row.id}` }, 'Manage');
    e.addEventListener('click', () => act.manage(row.id));
    return e;
  }),
], 'No group yet: add one.');
$('groups').append(groupTable.element);

const proxyTable = makeTable('Proxies', [
  name('Proxy', (row) => row.id),
  state('State', (row) => row.state),
  column('Version', (row) => row.version),
  number('Clients', figure('clients', counted)),
  number('Requests/s', traffic('calls', rate)),
  number('Errors/s', traffic('errors', rate)),
  number('No reply/s', figure('failures', rate)),
  number('Sent again/s', figure('retries', rate)),
  number('Mean', traffic('mean_us', micros)),
  number('p50', traffic('p50_us', micros)),
  number('p99', traffic('p99_us', micros)),
  number('Waiting', figure('owed', counted)),
  button('', (row, now) => {
    const e = make('button', { 'data-do': 'forget', 'aria-label': `Forget ${row.id}` }, 'Forget');
    e.addEventListener('click', () => act.writing(() => act.forgetProxy(now().id)));
    return e;
  }, (row) => !row.present),
], 'No proxy is registered.');
$('proxies').append(proxyTable.element);

const auditTable = makeTable('Latest actions', [
  column('When', (row) => new Date(row.time).toLocaleString('en-GB')),
  { ...column('Who', (row) => row.actor), kind: 'long' },
  { ...column('What', (row) => row.action), kind: 'long' },
  { ...column('Detail', (row) => row.detail || ''), kind: 'long' },
  { ...column('Outcome', (row) => row.outcome), kind: 'long' },
], 'Nothing has been done yet.');
$('audit').append(auditTable.element);

// stateOf says how a server is, and whether that is bad.
function stateOf(g, s) {
  if (s.role === 'unknown') {
    const problem = s.problem || 'it does not answer';
    return [`down: ${problem.startsWith(s.address + ': ') ? problem.slice(s.address.length + 2) : problem}`, true];
  }
  if (s.address === g.primary) {
    return s.role === 'primary' ? ['primary', false] : [`${s.role}, but the primary by the store`, true];
  }
  if (s.role === 'primary') {
    return ['primary, but a replica by the store', true];
  }
  if (s.primary !== g.primary && page.view.product.kind === 'groups') {
    return [`replica of ${s.primary}, which is not the primary`, true];
  }
  return s.link === 'up' ? ['replica', false] : [`replica, link ${s.link}`, true];
}

function drawGroups(v) {
  const measured = new Map(v.servers.map((s) => [s.address, s]));
  const rows = [];
  for (const g of v.groups) {
    const down = (g.servers || []).filter((s) => stateOf(g, s)[1]).length;
    rows.push({
      key: g.id, id: g.id, name: act.nameOf(g), colour: colourOf(g.id), slots: g.slots,
      state: [g.draining && 'draining', down && `trouble with ${down} of ${g.servers.length}`]
        .filter(Boolean).join(', '),
      kind: down ? 'group bad' : 'group',
    });
    for (const s of g.servers || []) {
      const [text, bad] = stateOf(g, s);
      const lives = s.role !== 'unknown';
      rows.push({
        key: g.id + ' ' + s.address, address: s.address, name: s.address + (s.zone ? `, ${s.zone}` : ''),
        state: text + (lives && s.server ? `, ${s.server}` : ''), kind: bad ? 'server bad' : 'server',
        traffic: measured.get(s.address),
        ...lives ? { keys: s.keys, memory: s.memory, clients: s.clients, ops: s.ops } : {},
      });
    }
  }
  groupTable.update(rows);
}

function drawProxies(v) {
  proxyTable.update(v.proxies.map((p) => {
    const texts = [];
    if (!p.present) {
      texts.push('does not reach the store');
    }
    if (!p.current) {
      texts.push('acts on an older table');
    }
    const bad = texts.length > 0;
    if (p.problem) {
      texts.push('no figures: ' + p.problem);
    }
    const figures = p.problem ? { clients: undefined, owed: undefined, failures: undefined, retries: undefined } : {};
    return { ...p, ...figures, key: p.id, state: texts.join('; ') || 'serves', kind: bad ? 'bad' : '' };
  }));
}

function drawSlots(v) {
  show($('assign'), false);
  if (!v.slots) {
    return;
  }
  const now = JSON.stringify([v.product.name, v.slots, v.groups.map((g) => [g.id, g.label, g.slots])]);
  if (now !== drawnSlots) {
    drawnSlots = now;
    cells = cellsOf(v.slots.slots, v.slots.ranges);
    drawMap($('map'), cells);
    $('map').setAttribute('aria-label', `The groups of ${counted(v.slots.slots)} slots`);
    const items = v.groups.map((g) => {
      const swatch = make('span', { class: 'swatch' });
      swatch.style.background = colourOf(g.id);
      return make('li', {}, swatch, `${g.label || shortId(g.id)} ${counted(g.slots)}`);
    });
    $('legend').replaceChildren(...items);
  }
  cursor = Math.min(cursor, cells.length - 1);
  tellSlot();
  show($('assign'), v.product.kind === 'groups' && v.groups.length > 0 && freeSlots(v) > 0);
}

const freeSlots = (v) => v.slots.slots - v.slots.ranges.reduce((n, r) => n + (r.group ? r.to - r.from + 1 : 0), 0);

function tellSlot() {
  const r = cells[cursor];
  let text = 'no group';
  if (r && r.group) {
    text = shortId(r.group) + (r.state ? `, ${r.state} to ${shortId(r.target)}` : '');
  }
  say($('slot'), `Slot ${cursor}: ${text}`);
}

function drawMove(v) {
  const m = v.move;
  const live = Boolean(m) && m.state !== 'done' && !m.ended;
  const buttons = { pause: live && m.state === 'running', resume: live && m.state === 'paused', pace: live,
    cancel: live && m.state !== 'cancelled' };
  for (const [id, visible] of Object.entries(buttons)) {
    show($(id), visible);
  }
  show($('move-bar'), Boolean(m));
  show($('move-figures'), Boolean(m));
  $('move').dataset.state = m ? m.state : '';
  if (!m) {
    say($('move-state'), 'No slots have been moved yet.');
    return;
  }
  const targets = [...new Set(m.steps.map((s) => shortId(s.target)))];
  const problem = live && m.problem ? ` It waits: ${m.problem}` : '';
  const proxies = live && m.waiting.length ? ` These proxies have not confirmed: ${m.waiting.join(', ')}.` : '';
  const ended = live ? '' : `, ended ${clock(m.ended || m.created)}`;
  const to = targets.slice(0, 5).join(', ') + (targets.length > 5 ? ' and others' : '');
  say($('move-state'), `${m.state}${ended}; to ${to}; by ${m.by}.${problem}${proxies}`);
  $('move-bar').value = m.slots ? m.done / m.slots : 1;
  const took = Math.max(0.001, (m.ended ? Date.parse(m.ended) : v.at) / 1000 - Date.parse(m.created) / 1000);
  const left = m.left_s >= 0 ? seconds(m.left_s) : 'unknown';
  drawFigures($('move-figures'), [
    ['Slots', `${counted(m.done)} of ${counted(m.slots)}`, 'move-slots'],
    ['Keys', counted(m.keys), 'move-keys'],
    ['Bytes', bytes(m.bytes), 'move-bytes'],
    ['Keys a second', rate(m.keys_rate), 'move-rate'],
    ['Bytes a second', bytes(m.bytes / took), 'move-bytes-rate'],
    [live ? 'Time left' : 'Time', live ? left : seconds(took), 'move-left'],
    ['Pace', m.pace ? `${counted(m.pace)} keys/s` : 'no bound', 'move-pace'],
  ]);
}

function drawNow(v) {
  const sum = (list, of) => list.reduce((n, e) => n + (of(e) || 0), 0);
  const servers = v.groups.flatMap((g) => g.servers || []);
  const primaries = servers.filter((s) => s.role === 'primary');
  const seen = v.proxies.filter((p) => p.traffic);
  const calls = sum(seen, (p) => p.traffic.calls);
  const point = {
    at: v.at, calls, ops: sum(servers, (s) => s.ops), errors: sum(seen, (p) => p.traffic.errors),
    failures: sum(v.proxies, (p) => p.failures), p99: Math.max(0, ...seen.map((p) => p.traffic.p99_us)),
    mean: calls ? sum(seen, (p) => p.traffic.calls * p.traffic.mean_us) / calls : 0,
  };
  if (!points.length || points[points.length - 1].at < v.at) {
    points = [...points, point].slice(-POINTS);
  }
  charts.forEach((c) => c.update(points));
  drawFigures($('figures'), [
    ['Requests/s at proxies', rate(point.calls), 'calls'],
    ['Commands/s at servers', rate(point.ops), 'ops'],
    ['p99, worst proxy', micros(point.p99), 'p99'],
    ['Error replies/s', rate(point.errors), 'errors'],
    ['No reply/s', rate(point.failures), 'failures'],
    ['Clients of proxies', counted(sum(v.proxies, (p) => p.clients)), 'clients'],
    ['Keys', counted(sum(primaries, (s) => s.keys)), 'keys'],
    ['Memory of primaries', bytes(sum(primaries, (s) => s.memory)), 'memory'],
    [v.product.kind === 'cluster' ? 'Shards' : 'Groups', counted(v.groups.length), 'groups'],
    ['Servers', counted(servers.length), 'servers'],
    ['Proxies', counted(v.proxies.length), 'proxies'],
  ]);
}

// troublesOf is all that is wrong, the worst first.
function troublesOf(v) {
  const all = [];
  if (v.problem) {
    all.push(v.problem);
  }
  for (const g of v.groups) {
    for (const s of g.servers || []) {
      const [text, bad] = stateOf(g, s);
      if (bad) {
        const role = s.address === g.primary ? 'The primary' : 'A replica';
        all.push(`${role} of ${g.label || shortId(g.id)}, ${s.address}, is ${text}`);
      }
    }
  }
  for (const p of v.proxies) {
    if (!p.present) {
      all.push(`Proxy ${p.id} does not reach the store.`);
    }
  }
  if (v.slots && freeSlots(v) > 0 && v.groups.length) {
    all.push(`${counted(freeSlots(v))} slots belong to no group: requests for them fail.`);
  }
  return [...all, ...v.refused.map((text) => `An entry of the store is refused: ${text}`)];
}

function drawTroubles(all) {
  show($('troubles'), all.length > 0);
  const shown = all.slice(0, MOST_TROUBLES);
  if (all.length > MOST_TROUBLES) {
    shown.push(`And ${all.length - MOST_TROUBLES} more.`);
  }
  const list = $('troubles');
  while (list.children.length > shown.length) {
    list.lastChild.remove();
  }
  shown.forEach((text, i) => {
    if (!list.children[i]) {
      list.append(make('li'));
    }
    say(list.children[i], text);
  });
}

function draw(v) {
  const began = performance.now();
  page.view = v;
  v.groups.forEach((g) => colourOf(g.id)); // in their order, before a map asks in another one
  show($('main'), true);
  for (const one of [drawNow, drawSlots, drawMove, drawGroups, drawProxies]) {
    one(v);
  }
  const all = troublesOf(v);
  drawTroubles(all);
  $('dot').className = 'dot ' + (all.length ? 'bad' : 'good');
  const label = v.product.label ? `, ${v.product.label}` : '';
  say($('what'), `${v.product.kind === 'cluster' ? 'over a cluster' : 'over groups'}${label}`);
  const title = `${all.length ? '! ' : ''}${v.product.name} – spindle dashboard`;
  if (document.title !== title) {
    document.title = title;
  }
  say($('updated'), `As of ${clock(v.at)}.`);
  performance.clearMeasures('draw');
  performance.measure('draw', { start: began });
}

// --- looking ---

function alarm(text, active) {
  show($('alarm'), Boolean(text));
  say($('alarm-text'), text);
  const known = /^https?:\/\//.test(active || '');
  show($('active'), known);
  if (known) {
    $('active').href = active;
    say($('active'), active);
  }
  if (text) {
    $('dot').className = 'dot bad';
  }
}

// lookAtStatus reads the products, and whose token the page has.
async function lookAtStatus() {
  const s = await ask('GET', pathOf('status'));
  statusAt = performance.now();
  page.role = s.role;
  say($('token'), s.role === 'write' ? `Token: ${s.actor}` : 'Token');
  const options = [...$('product').options].map((o) => o.value);
  if (JSON.stringify(options) !== JSON.stringify(s.products)) {
    $('product').replaceChildren(...s.products.map((p) => make('option', { value: p }, p)));
  }
  if (!s.products.includes(page.product)) {
    choose(s.products.includes(wanted()) ? wanted() : s.products[0] || '');
  }
  $('product').value = page.product;
  show($('none'), !s.products.length);
  return s;
}

const wanted = () => decodeURIComponent(location.hash.slice(1));

// choose shows another product. A dialogue about the one before is closed: its action would be done to the next.
function choose(product) {
  if (page.product && page.product !== product) {
    act.close();
  }
  page.product = product;
  points = [];
  drawnSlots = '';
  statusAt = 0;
  history.replaceState(null, '', product ? '#' + encodeURIComponent(product) : location.pathname);
  if (!product) {
    show($('main'), false);
    drawTroubles([]);
    say($('what'), '');
  }
}
page.choose = choose;

// signed tries the token. It returns what is wrong with it; "" is nothing.
page.signed = async () => {
  try {
    const s = await lookAtStatus();
    page.look();
    return hasToken() && s.actor === 'anonymous' ? 'That is no token of this dashboard.' : '';
  } catch (e) {
    return e.status === 401 ? 'That is no token of this dashboard.' : e.message;
  }
};

// look asks and draws, one after the other: an old look never draws over a new one.
let looks = Promise.resolve();
function look() {
  looks = looks.then(lookNow);
  return looks;
}
page.look = look;

async function lookNow() {
  clearTimeout(timer);
  const began = performance.now();
  try {
    if (!statusAt || began - statusAt > STATUS_EVERY) {
      await lookAtStatus();
      if (page.product) {
        const { audit } = await ask('GET', pathOf('audit') + `?limit=15&product=${encodeURIComponent(page.product)}`);
        auditTable.update(audit.map((a, i) => ({ ...a, key: a.time + ' ' + i })));
      }
    }
    const { product } = page;
    if (product) {
      const v = await ask('GET', pathOf('products', product, 'overview'));
      if (product === page.product) {
        draw(v);
      }
    }
    alarm('');
  } catch (e) {
    statusAt = 0;
    if (e.status === 401) {
      page.role = '';
      alarm('This dashboard asks for a token.');
      if (!$('dialog').open) {
        act.askToken('This dashboard asks for a token.');
      }
    } else {
      alarm(e.status ? e.message : `The dashboard does not answer: ${e.message}`, e.active);
    }
  }
  const took = performance.now() - began;
  timer = setTimeout(look, document.hidden ? 10 * EVERY : Math.max(EVERY, 4 * took));
}

// --- what the reader does ---

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

// On a product's page each of these writes, after its dialogue.
const inProduct = (f) => () => page.view && page.product && act.writing(f);

const clicks = {
  create: () => act.writing(act.createProduct),
  first: () => act.writing(act.createProduct),
  token: act.changeToken,
  theme: nextTheme,
  rebalance: inProduct(act.rebalance),
  'move-slots': inProduct(() => act.moveSlots()),
  assign: inProduct(act.assignSlots),
  pause: inProduct(act.pauseMove),
  resume: inProduct(act.resumeMove),
  pace: inProduct(act.paceMove),
  cancel: inProduct(act.cancelMove),
  'add-group': inProduct(act.addGroup),
  'delete-product': inProduct(act.deleteProduct),
};
for (const [id, f] of Object.entries(clicks)) {
  $(id).addEventListener('click', f);
}

$('product').addEventListener('change', () => {
  choose($('product').value);
  look();
});

$('map').addEventListener('pointermove', (e) => {
  const box = $('map').getBoundingClientRect();
  const width = mapWidth(cells.length);
  const x = Math.floor((e.clientX - box.left) / box.width * width);
  const y = Math.floor((e.clientY - box.top) / box.height * cells.length / width);
  cursor = Math.max(0, Math.min(cells.length - 1, y * width + x));
  tellSlot();
});

$('map').addEventListener('keydown', (e) => {
  const width = mapWidth(cells.length);
  const move = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -width, ArrowDown: width, Home: -1e9, End: 1e9 }[e.key];
  if (move && cells.length) {
    e.preventDefault();
    cursor = Math.max(0, Math.min(cells.length - 1, cursor + move));
    tellSlot();
  }
});

const keys = { r: clicks.rebalance, g: clicks['add-group'], n: clicks.create, k: clicks.token, t: nextTheme };

document.addEventListener('keydown', (e) => {
  const f = keys[e.key];
  const typing = ['INPUT', 'SELECT'].includes(e.target.tagName) && !$('dialog').contains(e.target);
  if (!f || e.ctrlKey || e.metaKey || e.altKey || $('dialog').open || typing) {
    return; // a field of a dialogue that has just closed may still have the focus
  }
  e.preventDefault();
  f();
});

document.addEventListener('visibilitychange', () => document.hidden || look());
setTheme(localStorage.getItem('theme') || 'auto');
look();
