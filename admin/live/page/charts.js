// Charts over the history. All have one time axis, one cross-hair and the same marks. uPlot draws them.

import { make, say, clock, when, rounded, bytes, micros } from './draw.js';

const uPlot = globalThis.uPlot;

const HEIGHT = 156; // of a chart, CSS pixels
const NEAR = 7; // pixels between the cross-hair and a mark that is told of
const LETTERS = { start: '▶', save: 'S', rewrite: 'A', role: 'R', config: 'C', stall: '!', copy: 'R' };

export const RANGES = { minutes: 600, hour: 3600, day: 86400 }; // seconds

const charts = [];
let events = [];
let cursor = null; // the time of the cross-hair, Unix s; null: it is not shown
let zoom = null; // the part of the range that is shown: [from, to], Unix s; null: all of it
let onZoom = () => {};

export function whenZoomed(f) {
  onZoom = f;
}

export const zoomed = () => zoom;

// --- axes ---

const DECIMAL = [];
for (let n = 1e-3; n < 1e13; n *= 10) {
  DECIMAL.push(n, 2 * n, 5 * n);
}
const BINARY = [];
for (let n = 1; n < 2 ** 50; n *= 2) {
  BINARY.push(n);
}

// Units of value axes: the steps that are round, the least top, and the texts.
const UNITS = {
  count: { incrs: DECIMAL.filter((n) => n >= 1), least: 10, axis: rounded },
  bytes: { incrs: BINARY, least: 1024, axis: (n) => n === 0 ? '0' : bytes(n).replace('.0 ', ' ') },
  rate: { incrs: BINARY, least: 1024, axis: (n) => n === 0 ? '0' : bytes(n).replace('.0 ', ' ') + '/s' },
  percent: { incrs: [5, 10, 20, 25, 50, 100, 200, 500, 1000, 2000], least: 100, axis: (n) => `${n} %` },
  micros: { log: true, axis: (n) => micros(n).replace('.0 ', ' ') },
};

// roundTop is the next round value above the highest point: the scale begins at zero, and small changes stay small.
function roundTop(unit, most) {
  const top = Math.max(unit.least, most * 1.05);
  const step = unit.incrs.find((n) => n * 4 >= top) || top / 4;
  return Math.ceil(top / step) * step;
}

function timeTexts(u, splits, axis, space, step) {
  return splits.map((t) => {
    const date = new Date(t * 1000);
    const text = date.toLocaleTimeString('en-GB');
    return step >= 60 ? text.slice(0, 5) : text;
  });
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600, 43200, 86400];

// --- one chart ---

// style reads a colour of the theme.
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// A Chart shows series of the history. spec: title, unit, note, and series of key, label, colour (a to e), dash, form.
// With stacked, the series lie on one another; those marked line do not.
class Chart {
  constructor(spec) {
    this.spec = spec;
    this.hidden = new Set();
    this.legend = make('div', { class: 'legend' });
    this.box = make('div', { class: 'chart', tabindex: 0, role: 'img', 'data-chart': spec.title });
    const title = make('h3', {}, spec.title);
    if (spec.note) {
      title.append(make('span', { class: 'soft' }, ` ${spec.note}`));
    }
    this.element = make('div', { class: 'charted' }, title, this.box, this.legend);
    this.stamp = make('span', { class: 'at' });
    this.values = spec.series.map((s, i) => this.entry(s, i));
    this.mark = make('span', { class: 'mark' });
    this.legend.append(this.stamp, ...this.values.map((v) => v.element), this.mark);
    this.box.addEventListener('keydown', (e) => this.pressed(e));
    new ResizeObserver(() => this.resize()).observe(this.box);
    charts.push(this);
  }

  // entry is a series in the legend. A click hides the series or shows it again.
  entry(s, i) {
    const value = make('b', {});
    const swatch = make('i', { class: `swatch ${s.color}${s.dash ? ' dashed' : ''}`, 'aria-hidden': 'true' });
    const element = make(this.spec.series.length > 1 ? 'button' : 'span', {}, swatch, `${s.label} `, value);
    if (this.spec.series.length > 1) {
      element.setAttribute('aria-pressed', 'true');
      element.addEventListener('click', () => {
        if (!this.hidden.delete(i)) {
          this.hidden.add(i);
        }
        element.setAttribute('aria-pressed', String(!this.hidden.has(i)));
        this.draw(this.history, this.from, this.to);
      });
    }
    return { element, value };
  }

  // options are uPlot's.
  options(width) {
    const unit = UNITS[this.spec.unit];
    const soft = style('--soft');
    const rule = style('--rule');
    const font = '11px system-ui, sans-serif';
    const grid = { stroke: rule, width: 1 };
    const y = unit.log
      ? { distr: 3, range: (u, least, most) => this.decades(least, most) }
      : { range: (u, least, most) => [0, roundTop(unit, most || 0)] };
    const values = { stroke: soft, font, size: 62, gap: 4, grid, ticks: { show: false },
      values: (u, splits) => splits.map((v) => v === null ? '' : unit.axis(v)) };
    if (unit.log) {
      values.filter = (u, splits) => splits.map((v) => Math.abs(Math.log10(v) % 1) < 1e-9 ? v : null);
      values.grid = { ...grid, filter: values.filter };
    } else {
      values.incrs = unit.incrs;
      values.space = 24;
    }
    return {
      width, height: HEIGHT, padding: [14, 20, 0, 0], legend: { show: false },
      cursor: { sync: { key: 'spindle' }, drag: { x: true, y: false, setScale: false }, y: false, points: { size: 6 } },
      scales: { x: { time: true, range: () => [this.from, this.to] }, y },
      axes: [{ stroke: soft, font, grid, size: 24, gap: 3, space: 74, incrs: STEPS, ticks: { show: false },
        values: timeTexts }, values],
      series: [{}, ...this.spec.series.map((s) => this.line(s))],
      bands: this.bands(),
      hooks: { setCursor: [(u) => this.moved(u)], setSelect: [(u) => selected(u)], draw: [(u) => drawMarks(u)] },
    };
  }

  line(s) {
    const stroke = style('--' + s.color);
    const stacked = this.spec.stacked && !s.line;
    const line = { stroke, width: stacked ? 1 : 1.7, dash: s.dash, points: { show: false }, spanGaps: false };
    if (s.dots) {
      line.paths = () => null;
      line.points = { show: true, size: 7, fill: stroke, stroke };
    } else {
      line.points = { show: false, filter: (u, i) => alone(u.data[i]), size: 4, fill: stroke, stroke };
    }
    if (stacked) {
      line.fill = stroke + '88';
    } else if (this.spec.series.length === 1) {
      line.fill = stroke + '22';
    }
    return line;
  }

  // bands keep the fill of a stacked series above the next one.
  bands() {
    const stacked = this.stackedSeries();
    return stacked.slice(0, -1).map((i, n) => ({ series: [i + 1, stacked[n + 1] + 1] }));
  }

  stackedSeries() {
    return this.spec.stacked ? this.spec.series.map((s, i) => s.line ? -1 : i).filter((i) => i >= 0) : [];
  }

  // decades are the ends of a logarithmic scale.
  decades(least, most) {
    const floor = Math.min(100, 10 ** Math.floor(Math.log10(least || 100)));
    return [floor, Math.max(floor * 1000, 10 ** Math.ceil(Math.log10(most || 1)))];
  }

  // draw shows a history from one time to another.
  draw(history, from, to) {
    Object.assign(this, { history, from, to });
    const columns = this.columns(history);
    if (!this.box.clientWidth) {
      return;
    }
    if (!this.plot) {
      this.plot = new uPlot(this.options(this.box.clientWidth), columns, this.box);
    } else {
      this.plot.setData(columns, false);
      this.plot.batch(() => {
        this.plot.setScale('x', { min: from, max: to });
        this.spec.series.forEach((s, i) => {
          if (this.plot.series[i + 1].show !== !this.hidden.has(i)) {
            this.plot.setSeries(i + 1, { show: !this.hidden.has(i) });
          }
        });
      });
    }
    this.box.dataset.points = history.at.length;
    this.tell();
  }

  // columns are uPlot's data. Stacked series are sums of what is shown below them; a logarithm has no zero.
  columns(history) {
    const log = UNITS[this.spec.unit].log;
    const raw = this.spec.series.map((s) => history[s.key]);
    const columns = raw.map((c) => log ? c.map((v) => v > 0 ? v : null) : c.slice());
    const stacked = this.stackedSeries().filter((i) => !this.hidden.has(i)).reverse();
    stacked.forEach((i, n) => {
      if (n) {
        const below = columns[stacked[n - 1]];
        columns[i] = columns[i].map((v, j) => v === null ? null : v + (below[j] || 0));
      }
    });
    return [history.at, ...columns];
  }

  resize() {
    if (this.plot && this.box.clientWidth) {
      this.plot.setSize({ width: this.box.clientWidth, height: HEIGHT });
    } else if (this.history) {
      this.draw(this.history, this.from, this.to);
    }
  }

  // again draws with another theme's colours.
  again() {
    if (this.plot) {
      this.plot.destroy();
      this.plot = null;
      this.draw(this.history, this.from, this.to);
    }
  }

  moved(u) {
    const at = u.cursor.idx;
    const shown = u.cursor.left >= 0 && at !== null && at !== undefined;
    cursor = shown ? u.posToVal(u.cursor.left, 'x') : null;
    this.at = shown ? at : null;
    this.tell();
  }

  // tell writes the values at the cross-hair, or the last ones.
  tell() {
    const h = this.history;
    let at = this.at;
    if (at === null || at === undefined || at >= h.at.length) {
      at = h.at.length - 1;
      while (at > 0 && this.spec.series.every((s) => h[s.key][at] === null || s.dots)) {
        at--;
      }
    }
    if (at < 0) {
      return;
    }
    const time = clock(cursor === null ? h.at[at] : cursor);
    say(this.stamp, time);
    const said = this.spec.series.map((s, i) => {
      const v = h[s.key][at];
      const text = v === null || v === undefined ? '–' : s.form(v);
      say(this.values[i].value, text);
      return `${s.label} ${text}`;
    });
    this.box.setAttribute('aria-label', `${this.spec.title} at ${time}: ${said.join(', ')}`);
    say(this.mark, cursor === null ? '' : markAt(this.plot));
  }

  // pressed moves the cross-hair of all charts.
  pressed(e) {
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[e.key];
    if (e.key === 'Escape') {
      moveAll(null);
    }
    if (!move) {
      return;
    }
    e.preventDefault();
    const h = this.history;
    const now = this.at === null || this.at === undefined ? h.at.length - 1 : this.at;
    const to = Math.min(h.at.length - 1, Math.max(0, now + move * (e.shiftKey ? 10 : 1)));
    moveAll(h.at[to]);
  }
}

// alone are the points that have no neighbour, and so no line.
function alone(values) {
  const missing = (i) => (values[i] ?? null) === null;
  const all = values.map((v, i) => i).filter((i) => !missing(i) && missing(i - 1) && missing(i + 1));
  return all.length ? all : null;
}

function moveAll(t) {
  for (const { plot } of charts) {
    if (plot) {
      plot.setCursor({ left: t === null ? -10 : plot.valToPos(t, 'x'), top: t === null ? -10 : 10 }, true, false);
    }
  }
}

// selected zooms all charts to what was dragged over.
function selected(u) {
  if (u.select.width < 4) {
    return;
  }
  zoom = [u.posToVal(u.select.left, 'x'), u.posToVal(u.select.left + u.select.width, 'x')];
  u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  onZoom();
}

export function unzoom() {
  zoom = null;
  onZoom();
}

// --- marks ---

const visible = (u) => events.filter((e) => e.at / 1000 >= u.scales.x.min && e.at / 1000 <= u.scales.x.max);

// drawMarks draws a line for each event, with the letter of its kind above.
function drawMarks(u) {
  const ratio = devicePixelRatio;
  const { ctx, bbox } = u;
  ctx.save();
  ctx.font = `bold ${10 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = 'center';
  ctx.textBaseline = 'bottom';
  ctx.lineWidth = ratio;
  ctx.setLineDash([2 * ratio, 3 * ratio]);
  let last = -100;
  for (const e of visible(u)) {
    const x = Math.round(u.valToPos(e.at / 1000, 'x', true));
    ctx.strokeStyle = ctx.fillStyle = e.kind === 'stall' ? style('--bad') : style('--soft');
    ctx.globalAlpha = 0.5;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.globalAlpha = 1;
    if (x - last > 9 * ratio) {
      ctx.fillText(LETTERS[e.kind] || '•', x, bbox.top - ratio);
      last = x;
    }
  }
  ctx.restore();
}

// markAt is the event at the cross-hair.
function markAt(u) {
  let best = null;
  let near = NEAR;
  for (const e of visible(u)) {
    const away = Math.abs(u.valToPos(e.at / 1000, 'x') - u.valToPos(cursor, 'x'));
    if (away <= near) {
      [best, near] = [e, away];
    }
  }
  return best ? `${LETTERS[best.kind] || '•'} ${when(best.at / 1000)} ${best.text}` : '';
}

// --- all charts ---

export const addChart = (spec) => new Chart(spec);

// drawCharts shows a history up to now, with marks.
export function drawCharts(history, now, range, marks) {
  events = marks;
  const [from, to] = zoom || [now - RANGES[range], now];
  for (const chart of charts) {
    if (!chart.own) {
      chart.draw(history, from, to);
    }
  }
}

export function recolour() {
  charts.forEach((c) => c.again());
}

// withGaps puts a point without values where the history has a gap: a line across it would be made up.
export function withGaps(points) {
  const keys = Object.keys(points).filter((k) => k !== 'at' && k !== 'step');
  const all = { step: points.step, at: [] };
  keys.forEach((k) => { all[k] = []; });
  points.at.forEach((t, i) => {
    if (i && t - points.at[i - 1] > 2.5 * points.step) {
      all.at.push(points.at[i - 1] + points.step);
      keys.forEach((k) => all[k].push(null));
    }
    all.at.push(t);
    keys.forEach((k) => all[k].push(points[k][i]));
  });
  return all;
}
