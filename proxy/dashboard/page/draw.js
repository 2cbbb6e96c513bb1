// Pieces of the page. Texts are written with textContent alone: names are never markup.

const SVG = 'http://www.w3.org/2000/svg';
const SVG_TAGS = ['svg', 'polyline', 'line'];

export const $ = (id) => document.getElementById(id);

export function make(tag, attributes, ...children) {
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
export function say(e, text) {
  if (e.textContent !== text) {
    e.textContent = text;
  }
}

export function show(e, visible) {
  if (e.hidden === visible) {
    e.hidden = !visible;
  }
}

// --- numbers ---

export const counted = (n) => Number(n).toLocaleString('en', { maximumFractionDigits: 2 });
export const whole = (n) => counted(Math.round(n));
export const rate = (n) => n >= 10 ? whole(n) : Number(n).toLocaleString('en', { maximumFractionDigits: 1 });
// shortId cuts the IDs of a cluster's nodes.
export const shortId = (id) => /^[0-9a-f]{40}$/.test(id) ? id.slice(0, 8) : id;
export const clock = (ms) => new Date(ms).toLocaleTimeString('en-GB');

export function bytes(n) {
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
  return n.toFixed(1) + ' ' + units[unit];
}

export function micros(n) {
  n = Number(n);
  if (n < 1e3) {
    return whole(n) + ' µs';
  }
  return n < 1e6 ? (n / 1e3).toFixed(2) + ' ms' : (n / 1e6).toFixed(2) + ' s';
}

export function seconds(n) {
  const hours = Math.floor(n / 3600);
  const minutes = Math.floor(n % 3600 / 60);
  if (hours) {
    return `${hours} h ${minutes} min`;
  }
  return minutes ? `${minutes} min ${Math.floor(n % 60)} s` : `${Math.ceil(n)} s`;
}

// --- figures ---

// drawFigures shows rows of label and text. Elements stay the same from one look to the next.
export function drawFigures(list, rows) {
  while (list.children.length > rows.length) {
    list.lastChild.remove();
  }
  rows.forEach(([label, text, name], i) => {
    let row = list.children[i];
    if (!row) {
      row = make('div', {}, make('dt'), make('dd'));
      list.append(row);
    }
    say(row.firstChild, label);
    say(row.lastChild, text);
    row.lastChild.dataset.field = name || label;
  });
}

// --- tables ---

// Columns. text makes a cell's text of a row. A button makes its element once a row, and can be hidden.
export const column = (title, text) => ({ title, text, kind: '' });
export const state = (title, text) => ({ title, text, kind: 'state' });
export const number = (title, text) => ({ title, text, kind: 'n' });
export const name = (title, text) => ({ title, text, kind: 'name' });
export const button = (title, element, visible = () => true) => ({ title, element, visible, kind: '' });

// makeTable returns a table whose rows have keys. A row keeps its elements, and so the focus and the buttons in them.
export function makeTable(caption, columns, none) {
  const head = make('tr');
  for (const { title, kind } of columns) {
    head.append(make('th', { scope: 'col', class: kind === 'n' ? 'n' : '' }, title));
  }
  const body = make('tbody');
  const table = make('div', { class: 'scroll cards', tabindex: 0, role: 'region', 'aria-label': caption },
    make('table', {}, make('thead', {}, head), body));
  const empty = make('p', { class: 'none' }, none);
  const rows = new Map();
  const makeRow = (row) => {
    const tr = make('tr');
    const cells = columns.map((c) => {
      const td = make('td', { class: c.kind, 'data-label': c.title });
      tr.append(td);
      if (c.kind === 'name') {
        td.append(make('span', { class: 'swatch', hidden: '' }), make('span'));
      }
      return td;
    });
    const made = { tr, cells, row };
    columns.forEach((c, i) => {
      const e = c.element && c.element(row, () => made.row);
      if (e) {
        cells[i].append(e);
      }
    });
    rows.set(row.key, made);
    return made;
  };
  const fillCell = (c, td, row) => {
    if (c.element) {
      const visible = Boolean(td.firstChild) && c.visible(row);
      td.className = visible ? '' : 'empty';
      if (td.firstChild) {
        show(td.firstChild, visible);
      }
      return;
    }
    const text = String(c.text(row) ?? '');
    if (c.kind === 'name') {
      const [swatch, span] = td.children;
      show(swatch, Boolean(row.colour));
      if (row.colour && swatch.dataset.colour !== row.colour) {
        swatch.dataset.colour = row.colour;
        swatch.style.background = row.colour;
      }
      say(span, text);
      return;
    }
    say(td, text);
    td.className = text ? c.kind : c.kind + ' empty';
  };
  const update = (list) => {
    show(table, list.length > 0);
    show(empty, list.length === 0);
    const seen = new Set();
    let place = body.firstChild;
    for (const row of list) {
      seen.add(row.key);
      const made = rows.get(row.key) || makeRow(row);
      made.row = row;
      if (made.tr.className !== (row.kind || '')) {
        made.tr.className = row.kind || '';
      }
      columns.forEach((c, i) => fillCell(c, made.cells[i], row));
      if (made.tr === place) {
        place = place.nextSibling;
      } else {
        body.insertBefore(made.tr, place);
      }
    }
    for (const [key, made] of rows) {
      if (!seen.has(key)) {
        made.tr.remove();
        rows.delete(key);
      }
    }
  };
  return { element: make('div', {}, table, empty), update };
}

// --- colours and the slot map ---

const places = new Map(); // a group's place in the order in which the page has met them

// colourOf gives each group a colour that it keeps. Neighbours are far apart in hue.
export function colourOf(id) {
  if (!places.has(id)) {
    places.set(id, places.size);
  }
  const n = places.get(id);
  return hsl((207 + n * 137.508) % 360, 0.5, [0.5, 0.68, 0.36][Math.floor(n / 7) % 3]);
}

function hsl(h, s, l) {
  const part = (n) => {
    const k = (n + h / 30) % 12;
    const c = l - s * Math.min(l, 1 - l) * Math.max(-1, Math.min(k - 3, 9 - k, 1));
    return Math.round(255 * c).toString(16).padStart(2, '0');
  };
  return '#' + part(0) + part(8) + part(4);
}

// cellsOf returns the range of each slot; undefined for a slot of no group.
export function cellsOf(slots, ranges) {
  const cells = new Array(slots);
  for (const r of ranges) {
    cells.fill(r, r.from, r.to + 1);
  }
  return cells;
}

export const mapWidth = (slots) => slots > 4096 ? 256 : 64;

// drawMap paints one pixel a slot, in rows. A slot that moves has both colours.
export function drawMap(canvas, cells) {
  const width = mapWidth(cells.length);
  canvas.width = width;
  canvas.height = cells.length / width;
  const image = new ImageData(width, canvas.height);
  const colours = new Map();
  const rgb = (id) => {
    if (!colours.has(id)) {
      const n = parseInt(colourOf(id).slice(1), 16);
      colours.set(id, [n >> 16, n >> 8 & 255, n & 255]);
    }
    return colours.get(id);
  };
  for (let slot = 0; slot < cells.length; slot++) {
    const r = cells[slot];
    if (!r || !r.group) {
      continue;
    }
    const odd = (slot % width + Math.floor(slot / width)) % 2;
    image.data.set(rgb(r.state && odd ? r.target : r.group), slot * 4);
    image.data[slot * 4 + 3] = 255;
  }
  canvas.getContext('2d').putImageData(image, 0, 0);
}

// --- charts ---

const WIDE = 600;
const HIGH = 92;
const BASE = 90; // where zero is
const CLASSES = ['a', 'b'];

// makeChart returns a chart of one or two series on one scale: lines of key, name and form.
export function makeChart(title, lines) {
  const svg = make('svg', {
    class: 'chart', viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: 'none', role: 'img', 'data-chart': title,
  }, make('line', { x1: 0, x2: WIDE, y1: BASE, y2: BASE }));
  const drawn = lines.map((_, i) => make('polyline', { class: CLASSES[i] }));
  const said = lines.map((_, i) => make('span', { class: CLASSES[i] }));
  svg.append(...drawn);
  const legend = make('div', { class: 'legend' }, make('span', { class: 'soft' }, title), ...said);
  const update = (points) => {
    const from = points[0].at;
    const span = Math.max(1000, points[points.length - 1].at - from);
    const most = Math.max(1e-9, ...lines.map(([key]) => Math.max(...points.map((p) => p[key]))));
    lines.forEach(([key, label, form], i) => {
      const at = points.map((p) =>
        `${(WIDE * (p.at - from) / span).toFixed(1)},${(BASE - (BASE - 6) * p[key] / most).toFixed(1)}`);
      drawn[i].setAttribute('points', at.join(' '));
      const now = points[points.length - 1][key];
      say(said[i], `${label} ${form(now)}, at most ${form(Math.max(...points.map((p) => p[key])))}`);
    });
    svg.setAttribute('aria-label', `${title}: ${said.map((e) => e.textContent).join('; ')}`);
  };
  return { element: make('div', {}, svg, legend), update };
}
