// What an operator can do. Every action has a dialogue that says what will happen, and happens when it is confirmed.

import { ask, pathOf, setToken, hasToken } from './ask.js';
import { $, bytes, cellsOf, colourOf, counted, drawMap, make, say, shortId, whole } from './draw.js';

// page is set by app.js: what the page shows, and how to look again.
export const page = { product: '', view: null, role: '', look: () => {}, signed: async () => '', choose: () => {} };

const path = (...parts) => pathOf('products', page.product, ...parts);

// --- the dialogue ---

const dialog = $('dialog');
let current = 0; // counts dialogues, so that a late answer changes no other one

dialog.addEventListener('cancel', () => current++); // Escape
// A field that has the focus would get the keys of the page.
dialog.addEventListener('close', () => dialog.open || dialog.replaceChildren());

// open shows a dialogue: a title, some content, and buttons.
function open(title, content, buttons) {
  current++;
  const form = make('form', { method: 'dialog', novalidate: '' });
  form.append(make('h2', { id: 'dialog-title' }, title), ...content,
    make('p', { class: 'problem', role: 'alert', hidden: '' }), make('div', { class: 'buttons' }, ...buttons));
  dialog.replaceChildren(form);
  if (!dialog.open) {
    dialog.showModal();
  }
  const first = form.querySelector('input, select') || form.querySelector('.buttons button:last-child');
  first.focus();
  return form;
}

export function close() {
  current++;
  dialog.close();
}

function closer(text = 'Close') {
  const e = make('button', { type: 'button', 'data-do': 'close' }, text);
  e.addEventListener('click', close);
  return e;
}

function fault(form, text) {
  const e = form.querySelector('.problem');
  e.hidden = !text;
  say(e, text);
}

// A field of a form. kind is text, password, number, check or choice.
function makeField(f) {
  const id = 'field-' + f.name;
  let input;
  if (f.kind === 'choice') {
    input = make('select', { id, name: f.name });
    for (const [value, text] of f.choices) {
      input.append(make('option', { value }, text));
    }
  } else {
    const types = { check: 'checkbox', number: 'number', password: 'password' };
    input = make('input', { id, name: f.name, type: types[f.kind] || 'text', autocomplete: 'off', spellcheck: 'false',
      autocapitalize: 'off' });
    if (f.kind === 'number') {
      input.setAttribute('min', '0');
    }
  }
  if (f.value !== undefined) {
    input.value = f.value;
  }
  const row = make('div', { class: 'field' }, make('label', { for: id }, f.label), input);
  if (f.hint) {
    row.append(make('span', { class: 'soft' }, f.hint));
  }
  return row;
}

function valuesOf(form) {
  const values = {};
  for (const e of form.querySelectorAll('[name]')) {
    values[e.name] = e.type === 'checkbox' ? e.checked : e.value.trim();
  }
  return values;
}

// confirm asks whether something shall be done. run does it; what it refuses stays in the dialogue.
function confirm({ title, lines = [], fields = [], label, danger = false, run, done }) {
  const go = make('button', { type: 'submit', class: danger ? 'danger' : 'main', 'data-do': 'confirm' }, label);
  const content = [...lines.map((text) => make('p', {}, text)), ...fields.map(makeField)];
  const form = open(title, content, [closer('Cancel'), go]);
  const mine = current;
  form.addEventListener('submit', async (e) => {
    e.preventDefault();
    if (go.disabled) {
      return;
    }
    go.disabled = true;
    fault(form, '');
    try {
      const result = await run(valuesOf(form));
      page.look();
      if (mine === current) {
        close();
        if (done) {
          done(result);
        }
      }
    } catch (error) {
      fault(form, error.message);
      page.look();
    } finally {
      go.disabled = false;
    }
  });
  return form;
}

// writing does something that needs a token for writing, and asks for one first.
export function writing(act) {
  if (page.role === 'write') {
    act();
  } else {
    askToken('This needs a token for writing.', act);
  }
}

export function askToken(why, then) {
  confirm({
    title: 'Token', label: 'Use this token',
    lines: [why, 'The page keeps it in memory: it is gone when the page is closed or loaded again.'],
    fields: [{ name: 'secret', label: 'Token', kind: 'password' }],
    run: async ({ secret }) => {
      setToken(secret);
      const problem = await page.signed();
      if (problem) {
        setToken('');
        await page.signed();
        throw new Error(problem);
      }
    },
    done: () => then && page.role === 'write' && then(),
  });
}

export function changeToken() {
  const use = page.role === 'write' ? 'writing' : 'reading';
  askToken(hasToken() ? `Your token is for ${use}. Another one replaces it; an empty one ends its use.` :
    'Reading may need a token, writing always does.');
}

const list = (text) => text.split(/[\s,]+/).filter(Boolean);

// --- products ---

export function createProduct() {
  confirm({
    title: 'New product', label: 'Create the product',
    lines: ['A product is one data set behind proxies. Nothing happens on a server yet.'],
    fields: [
      { name: 'name', label: 'Name', hint: 'letters, digits, and . _ -' },
      { name: 'kind', label: 'Its data are in', kind: 'choice',
        choices: [['groups', 'groups of plain servers'], ['cluster', 'a Redis Cluster']] },
      { name: 'hash', label: 'Slots', kind: 'choice',
        choices: [['crc16', '16,384 by CRC-16'], ['crc32', '1,024 by CRC-32, as Codis has']] },
      { name: 'seeds', label: 'Seeds', hint: 'of a cluster: host:port of some of its nodes' },
      { name: 'label', label: 'Label' },
    ],
    run: async (v) => {
      const order = { name: v.name, kind: v.kind, label: v.label };
      if (v.kind === 'groups') {
        order.hash = v.hash;
      } else {
        order.seeds = list(v.seeds);
      }
      await ask('POST', pathOf('products'), order);
      page.choose(v.name);
    },
  });
}

export function deleteProduct() {
  confirm({
    title: `Delete product ${page.product}?`, label: 'Delete the product', danger: true,
    lines: ['Its entries in the store are deleted. No server is touched. It must have no group and no proxy.'],
    run: async () => {
      await ask('DELETE', path());
      page.choose('');
    },
  });
}

// --- groups and servers ---

const isCluster = () => page.view.product.kind === 'cluster';
export const nameOf = (g) => g.label ? `${g.label} (${shortId(g.id)})` : shortId(g.id);
const groupWord = () => isCluster() ? 'shard' : 'group';

export function addGroup() {
  const fields = [
    { name: 'primary', label: 'Primary', hint: 'host:port' },
    { name: 'replicas', label: 'Replicas', hint: 'host:port of each; they copy the primary' },
  ];
  if (!isCluster()) {
    fields.unshift({ name: 'id', label: 'Name' });
    fields.push({ name: 'wipe', label: 'Replicas may lose their data', kind: 'check' });
  }
  confirm({
    title: `Add a ${groupWord()}`, label: `Add the ${groupWord()}`, fields,
    lines: [isCluster() ? 'The nodes must be empty. They join the cluster without slots.' :
      'It gets no slots yet: rebalance afterwards, or assign free ones.'],
    run: (v) => {
      const order = { primary: v.primary, servers: list(v.replicas).map((address) => ({ address })) };
      if (!isCluster()) {
        Object.assign(order, { id: v.id, wipe: v.wipe });
      }
      return ask('POST', path('groups'), order);
    },
  });
}

export function assignSlots() {
  confirm({
    title: 'Assign free slots', label: 'Assign them',
    lines: ['All slots of no group go to the groups in equal parts. No key moves: nothing has served these slots.'],
    run: () => ask('POST', path('slots'), { even: true }),
  });
}

// manage shows what can be done with a group and its servers.
export function manage(id) {
  const g = page.view.groups.find((other) => other.id === id);
  if (!g) {
    return;
  }
  const entry = (text, act, danger) => {
    const e = make('button', { type: 'button', 'data-do': text, class: danger ? 'danger' : '' }, text);
    e.addEventListener('click', () => writing(act));
    return e;
  };
  const content = [
    make('div', { class: 'row' },
      entry('Add a server', () => addServer(g)),
      entry('Move slots here', () => moveSlots(g.id)),
      entry('Drain', () => drain(g)),
      ...g.draining ? [entry('Stop draining', () => undrain(g))] : [],
      entry('Remove', () => removeGroup(g), true)),
    make('h3', {}, 'Servers'),
  ];
  for (const s of g.servers) {
    const row = make('div', { class: 'row', 'data-server': s.address },
      make('span', { class: 'grow' }, `${s.address}, ${s.role === 'unknown' ? 'does not answer' : s.role}`));
    if (s.address !== g.primary) {
      row.append(entry('Promote', () => promote(g, s)), entry('Resync', () => resync(g, s)),
        entry('Remove', () => removeServer(g, s), true));
    }
    content.push(row);
  }
  open(`${isCluster() ? 'Shard' : 'Group'} ${nameOf(g)}`, content, [closer()]);
}

function addServer(g) {
  const fields = [{ name: 'address', label: 'Address', hint: 'host:port' }];
  if (!isCluster()) {
    fields.push({ name: 'zone', label: 'Zone' }, { name: 'wipe', label: 'It may lose its data', kind: 'check' });
  }
  confirm({
    title: `Add a server to ${nameOf(g)}`, label: 'Add the server', fields,
    lines: [`It becomes a replica of ${g.primary} and copies its data.`],
    run: (v) => ask('POST', path('groups', g.id, 'servers'), v),
  });
}

function promote(g, s) {
  confirm({
    title: `Promote ${s.address}?`, label: 'Promote it', danger: true,
    lines: [`It becomes the primary of ${nameOf(g)} instead of ${g.primary}.`,
      'The old primary holds writes back until the new one has them all.'],
    fields: [{ name: 'force', label: 'The primary is dead', kind: 'check',
      hint: 'promote without it: writes that it alone has are lost' }],
    run: (v) => ask('POST', path('groups', g.id, 'promote'), { server: s.address, force: v.force }),
  });
}

function resync(g, s) {
  confirm({
    title: `Resync ${s.address}?`, label: 'Resync it',
    lines: [`It is pointed at ${g.primary}, and copies what it lacks.`],
    run: () => ask('POST', path('groups', g.id, 'resync'), { server: s.address }),
  });
}

function removeServer(g, s) {
  confirm({
    title: `Remove ${s.address}?`, label: 'Remove the server', danger: true,
    lines: [`It leaves ${nameOf(g)} and no longer follows its primary. Its process continues.`],
    run: () => ask('DELETE', path('groups', g.id, 'servers', s.address)),
  });
}

function removeGroup(g) {
  confirm({
    title: `Remove ${groupWord()} ${nameOf(g)}?`, label: `Remove the ${groupWord()}`, danger: true,
    lines: [g.slots ? `It has ${counted(g.slots)} slots: drain it first.` : 'It has no slots.',
      'Its servers leave the product. Their processes continue.'],
    run: () => ask('DELETE', path('groups', g.id)),
  });
}

function drain(g) {
  confirm({
    title: `Drain ${nameOf(g)}?`, label: 'Mark it and make a plan',
    lines: [isCluster() ? 'A plan shows where its slots go.' :
      'It is marked: no plan gives it slots from now on. Then a plan shows where its slots go.',
    'Nothing moves until you start the plan.'],
    run: async () => {
      if (!isCluster()) {
        await ask('PATCH', path('groups', g.id), { draining: true });
      }
    },
    done: () => showPlan(`Drain ${nameOf(g)}`, { drain: g.id }),
  });
}

function undrain(g) {
  confirm({
    title: `Stop draining ${nameOf(g)}?`, label: 'Stop draining',
    lines: ['Plans may give it slots again. Nothing moves now.'],
    run: () => ask('PATCH', path('groups', g.id), { draining: false }),
  });
}

export function forgetProxy(id) {
  confirm({
    title: `Forget proxy ${id}?`, label: 'Forget the proxy', danger: true,
    lines: ['Moves no longer wait for it.',
      'Be sure that its process is gone: writes through it may be lost otherwise.'],
    run: () => ask('DELETE', path('proxies', id)),
  });
}

// --- plans and moves ---

export function rebalance() {
  confirm({
    title: 'Rebalance', label: 'Show the plan',
    lines: ['A plan is made and shown. Nothing moves until you start it.'],
    fields: [{ name: 'by', label: 'Even by', kind: 'choice', choices: [['slots', 'slots'], ['keys', 'keys'],
      ['bytes', 'bytes'], ['cpu', 'CPU time of the servers']] }],
    run: async ({ by }) => ({ order: { balance: by }, plan: await ask('POST', path('plan'), { balance: by }) }),
    done: ({ order, plan }) => drawPlan('Rebalance', order, plan),
  });
}

export function moveSlots(target) {
  const choices = page.view.groups.map((g) => [g.id, nameOf(g)]);
  confirm({
    title: 'Move slots', label: 'Show the plan',
    lines: ['A plan is made and shown. Nothing moves until you start it.'],
    fields: [{ name: 'slots', label: 'Slots', hint: 'as 0-99,200' },
      { name: 'target', label: 'To', kind: 'choice', choices, value: target }],
    run: async (v) => {
      const ranges = list(v.slots).map((word) => word.split('-').map(Number)).map(([from, to]) => [from, to ?? from]);
      if (!ranges.length || ranges.flat().some((n) => !Number.isInteger(n))) {
        throw new Error('Slots are numbers and ranges, as 0-99,200.');
      }
      const order = { move: { ranges, target: v.target } };
      return { order, plan: await ask('POST', path('plan'), order) };
    },
    done: ({ order, plan }) => drawPlan('Move slots', order, plan),
  });
}

async function showPlan(title, order) {
  const form = open(title, [make('p', {}, 'The plan is being made.')], [closer()]);
  const mine = current;
  try {
    const plan = await ask('POST', path('plan'), order);
    if (mine === current) {
      drawPlan(title, order, plan);
    }
  } catch (error) {
    fault(form, error.message);
  }
}

// weightOf shows a share of what the plan weighs. Weights of slots are thousandths.
function weightOf(by, n) {
  const forms = { keys: counted, bytes, cpu: (ms) => whole(ms) + ' ms' };
  return by === 'slots' ? '' : forms[by](Math.round(n / 1000));
}

// drawPlan shows the slots before and after, and starts the plan as it is.
function drawPlan(title, order, plan) {
  if (!plan.moved) {
    open(title, [make('p', { id: 'plan-none' }, 'No slot would move: it is as even as it can be.')], [closer()]);
    return;
  }
  const product = page.product;
  const start = make('button', { type: 'submit', class: 'main', 'data-do': 'start' }, 'Start the move');
  const again = make('button', { type: 'button', 'data-do': 'again', hidden: '' }, 'Make a new plan');
  again.addEventListener('click', () => showPlan(title, order));
  const before = make('canvas', { role: 'img', 'aria-label': 'Slots before' });
  const after = make('canvas', { role: 'img', 'aria-label': 'Slots after' });
  const pace = makeField({
    name: 'pace', label: 'Pace', kind: 'number', value: '0', hint: 'keys a second; 0 is no bound',
  });
  const form = open(title, [
    make('p', { id: 'plan' }, `${counted(plan.moved)} slots move in ${counted(plan.steps.length)} steps. The fullest ` +
      `${groupWord()} has ${plan.imbalance.before.toFixed(1)} % more than the mean before, and ` +
      `${plan.imbalance.after.toFixed(1)} % after.`),
    make('h3', {}, 'Before'), before, make('h3', {}, 'After'), after,
    planTable(plan), pace,
  ], [closer('Cancel'), again, start]);
  const slots = page.view.slots;
  const cells = cellsOf(slots.slots, slots.ranges.map(({ from, to, group }) => ({ from, to, group })));
  drawMap(before, cells);
  for (const s of plan.steps) {
    cells.fill({ group: s.target }, s.from, s.to + 1);
  }
  drawMap(after, cells);
  const mine = current;
  form.addEventListener('submit', async (e) => {
    e.preventDefault();
    start.disabled = true;
    fault(form, '');
    try {
      const rate = Number(form.querySelector('[name=pace]').value) || 0;
      await ask('POST', pathOf('products', product, 'move'), { steps: plan.steps, pace: rate });
      page.look();
      if (mine === current) {
        close();
        $('move').scrollIntoView({ block: 'nearest' });
      }
    } catch (error) {
      fault(form, error.message);
      again.hidden = false;
      start.disabled = false;
      page.look();
    }
  });
}

function planTable(plan) {
  const weighs = plan.by !== 'slots';
  const head = make('tr', {}, make('th', { scope: 'col' }, isCluster() ? 'Shard' : 'Group'));
  const titles = ['Slots before', 'after', ...weighs ? [`${plan.by} before`, 'after'] : []];
  head.append(...titles.map((text) => make('th', { scope: 'col', class: 'n' }, text)));
  const body = make('tbody');
  for (const s of plan.shards) {
    const swatch = make('span', { class: 'swatch' });
    swatch.style.background = colourOf(s.id);
    const cells = [counted(s.slots.before), counted(s.slots.after)];
    if (weighs) {
      cells.push(weightOf(plan.by, s.weight.before), weightOf(plan.by, s.weight.after));
    }
    const title = shortId(s.id) + (s.draining ? ', draining' : '');
    body.append(make('tr', { 'data-group': s.id }, make('td', { class: 'name' }, swatch, title),
      ...cells.map((text) => make('td', { class: 'n' }, text))));
  }
  return make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'The plan by group' },
    make('table', {}, make('thead', {}, head), body));
}

const change = (body) => () => ask('PATCH', path('move'), body);

export function pauseMove() {
  confirm({ title: 'Pause the move?', label: 'Pause it', run: change({ state: 'paused' }),
    lines: ['Slots that are under way are completed, or returned. It can continue later.'] });
}

export function resumeMove() {
  confirm({ title: 'Continue the move?', label: 'Continue', run: change({ state: 'running' }),
    lines: ['It continues where it stopped.'] });
}

export function cancelMove() {
  confirm({ title: 'Cancel the move?', label: 'Cancel the move', danger: true, run: change({ state: 'cancelled' }),
    lines: ['Slots that have arrived stay where they are. The others stay with their group.'] });
}

export function paceMove() {
  confirm({
    title: 'Pace', label: 'Set the pace', lines: ['It holds from the next keys on.'],
    fields: [{ name: 'pace', label: 'Keys a second', kind: 'number', value: String(page.view.move.pace),
      hint: '0 is no bound' }],
    run: (v) => ask('PATCH', path('move'), { pace: Number(v.pace) || 0 }),
  });
}
