// Tables that are never cut. Columns give way by their worth, and names by their middle. A click on a heading sorts.

import { make, say, shorten, asIs, counted } from './draw.js';

const LONGEST = 64; // characters of a name that has all the room
const SHORTEST = 14; // of a name, before a column gives way
const FIRST_ROWS = 8; // shown until the reader asks for all
const MOST_ROWS = 200;
const FILTERED_FROM = 6; // rows from which a table can be filtered

// Columns. key is a name in a row, or a function of it. The column of least worth gives way first.
export const column = (title, key, worth, form = asIs) => ({ title, key, worth, form, kind: '' });
export const numbers = (title, key, worth, form = counted) => ({ title, key, worth, form, kind: 'n' });
export const names = (title, key, worth) => ({ title, key, worth, form: asIs, kind: 'name' });

const valueOf = (row, key) => typeof key === 'function' ? key(row) : row[key];

// A Table shows rows. options: none is said without rows. sort is the title of the column it is sorted by at first,
// with "-" before it for the largest first. pick is called with a row whose first cell is clicked.
class Table {
  constructor(caption, columns, options = {}) {
    Object.assign(this, { caption, columns, options, rows: [], wanted: '', all: false, hidden: 0, most: LONGEST });
    this.down = (options.sort || '').startsWith('-');
    this.by = columns.findIndex((c) => c.title === (options.sort || '').replace('-', ''));
    this.none = make('p', { class: 'none' }, options.none || `${caption}: none`);
    this.filter = make('input', { type: 'search', placeholder: 'Filter', 'aria-label': `Filter: ${caption}` });
    this.filter.addEventListener('input', () => { this.wanted = this.filter.value.toLowerCase(); this.fill(); });
    this.more = make('button', { class: 'more' });
    this.more.addEventListener('click', () => { this.all = !this.all; this.fill(); });
    this.head = make('tr');
    this.body = make('tbody');
    this.note = make('span', { class: 'soft' });
    this.title = make('div', { class: 'caption' }, make('span', {}, caption), this.filter);
    this.table = make('table', { 'aria-label': caption }, make('thead', {}, this.head), this.body);
    this.scroll = make('div', { class: 'fit' }, this.table);
    this.element = make('div', { class: 'tabled' }, this.title, this.none, this.scroll,
      make('div', { class: 'under' }, this.more, this.note));
    this.headings = columns.map((c, i) => this.heading(c, i));
    this.width = 0;
    new ResizeObserver(() => {
      if (this.scroll.clientWidth !== this.width) {
        this.width = this.scroll.clientWidth;
        [this.hidden, this.most] = [0, LONGEST];
        this.fill();
      }
    }).observe(this.scroll);
  }

  heading(c, i) {
    const button = make('button', { title: `Sort by ${c.title}` }, c.title);
    button.addEventListener('click', () => {
      this.down = this.by === i ? !this.down : c.kind === 'n';
      this.by = i;
      this.fill();
    });
    return make('th', { scope: 'col', class: c.kind }, button);
  }

  update(rows) {
    this.rows = rows || [];
    this.fill();
  }

  // sorted are the rows that are wanted, in order.
  sorted() {
    let rows = this.rows;
    if (this.wanted) {
      rows = rows.filter((row) => this.columns.some((c) => String(valueOf(row, c.key) ?? '').toLowerCase()
        .includes(this.wanted)));
    }
    if (this.by < 0) {
      return rows;
    }
    const { key, kind } = this.columns[this.by];
    const of = (row) => kind === 'n' ? Number(valueOf(row, key)) || 0 : String(valueOf(row, key) ?? '');
    const order = (a, b) => a < b ? -1 : a > b ? 1 : 0;
    return [...rows].sort((a, b) => order(of(a), of(b)) * (this.down ? -1 : 1));
  }

  // fill writes the rows, and has columns give way until they fit.
  fill() {
    const rows = this.sorted().slice(0, MOST_ROWS);
    const shown = this.all ? rows : rows.slice(0, FIRST_ROWS);
    this.none.hidden = this.rows.length > 0;
    this.scroll.hidden = !this.rows.length;
    this.filter.hidden = this.rows.length < FILTERED_FROM;
    this.more.hidden = rows.length <= FIRST_ROWS;
    say(this.more, this.all ? 'Show fewer' : `Show all ${rows.length}`);
    this.write(shown);
    while (this.scroll.scrollWidth > this.scroll.clientWidth && this.scroll.clientWidth && this.giveWay()) {
      this.write(shown);
    }
    const gone = this.gone().map((i) => this.columns[i].title);
    say(this.note, gone.length && this.rows.length ? `No room for: ${gone.join(', ')}` : '');
  }

  // giveWay takes room from names or hides a column. It answers false when nothing is left to give.
  giveWay() {
    if (this.most > SHORTEST && this.columns.some((c) => c.kind === 'name')) {
      this.most = Math.max(SHORTEST, this.most - 6);
    } else if (this.hidden < this.columns.length - 1) {
      this.hidden++;
      this.most = LONGEST;
    } else {
      return false;
    }
    return true;
  }

  // gone are the columns that have given way.
  gone() {
    return this.columns.map((c, i) => i).sort((a, b) => this.columns[a].worth - this.columns[b].worth)
      .slice(0, this.hidden);
  }

  write(rows) {
    const gone = new Set(this.gone());
    const kept = this.columns.map((c, i) => i).filter((i) => !gone.has(i));
    const headings = kept.map((i) => this.headings[i]);
    if (this.head.children.length !== headings.length || headings.some((h, i) => this.head.children[i] !== h)) {
      this.head.replaceChildren(...headings);
    }
    this.headings.forEach((h, i) => {
      if (i === this.by) {
        h.setAttribute('aria-sort', this.down ? 'descending' : 'ascending');
      } else {
        h.removeAttribute('aria-sort');
      }
    });
    while (this.body.children.length > rows.length) {
      this.body.lastChild.remove();
    }
    rows.forEach((row, n) => {
      const tr = this.body.children[n] || this.body.appendChild(make('tr'));
      while (tr.children.length > kept.length) {
        tr.lastChild.remove();
      }
      kept.forEach((i, at) => this.cell(tr.children[at] || tr.appendChild(make('td')), this.columns[i], row, at));
    });
  }

  // cell writes one value: a name with its middle left out, a number with its unit beside it.
  cell(td, c, row, at) {
    const value = valueOf(row, c.key);
    const text = value === undefined || value === null ? '' : c.form(value);
    const shown = c.kind === 'name' ? shorten(text, this.most) : text;
    const pick = at === 0 && this.options.pick;
    const key = `${shown}|${c.kind}|${text}`;
    if (td.shown === key && !pick) {
      return;
    }
    td.shown = key;
    td.className = c.kind;
    if (shown === text) {
      td.removeAttribute('title');
    } else {
      td.title = text;
    }
    if (pick) {
      const button = td.querySelector('button') || make('button', { class: 'pick' });
      say(button, shown);
      button.onclick = () => this.options.pick(row);
      if (button.parentNode !== td) {
        td.replaceChildren(button);
      }
      return;
    }
    const [number, unit] = c.kind === 'n' ? text.split(/ (?=\S+$)/) : [text];
    td.textContent = c.kind === 'n' ? number : shown;
    if (unit) {
      td.append(make('span', { class: 'unit' }, ' ' + unit));
    }
  }
}

export const addTable = (caption, columns, options) => new Table(caption, columns, options);
