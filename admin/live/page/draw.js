// Elements and numbers. Texts are written with textContent alone: names are never markup.

const SVG = 'http://www.w3.org/2000/svg';
const SVG_TAGS = ['svg', 'rect'];

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

// --- numbers: each form is a text of a number and its unit, with one space between them ---

export const asIs = (s) => String(s);
export const counted = (n) => Number(n).toLocaleString('en', { maximumFractionDigits: 2 });
export const whole = (n) => counted(Math.round(n));
export const percent = (n) => Number(n).toFixed(1) + ' %';
export const onOff = (n) => n === '1' ? 'on' : 'off';
export const yesNo = (n) => n === '1' ? 'yes' : 'no';
export const perSecond = (n) => bytes(n) + '/s';

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
  return (Math.abs(n) < 100 ? n.toFixed(1) : whole(n)) + ' ' + units[unit];
}

export function micros(n) {
  n = Number(n);
  if (n < 1e3) {
    return (n < 10 ? n.toFixed(1) : whole(n)) + ' µs';
  }
  return n < 1e6 ? (n / 1e3).toFixed(n < 1e5 ? 1 : 0) + ' ms' : (n / 1e6).toFixed(1) + ' s';
}

export function seconds(n) {
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
  return minutes ? `${minutes} min ${Math.floor(n % 60)} s` : `${Math.round(n)} s`;
}

// rounded is a number of an axis: 250 k, 1.5 M.
export function rounded(n) {
  const units = [[1e9, ' G'], [1e6, ' M'], [1e3, ' k']];
  for (const [size, unit] of units) {
    if (Math.abs(n) >= size) {
      return counted(n / size) + unit;
    }
  }
  return counted(n);
}

const isToday = (date) => date.toDateString() === new Date().toDateString();

export function clock(unix) {
  return unix > 0 ? new Date(unix * 1000).toLocaleTimeString('en-GB') : '–';
}

// when is a time, with its day unless that is today.
export function when(unix) {
  if (!(unix > 0)) {
    return '–';
  }
  const date = new Date(unix * 1000);
  const day = isToday(date) ? '' : date.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' }) + ' ';
  return day + date.toLocaleTimeString('en-GB');
}

// shorten leaves out the middle of a name that is longer than most characters.
export function shorten(name, most) {
  const all = [...name];
  if (all.length <= most) {
    return name;
  }
  const half = Math.floor((most - 1) / 2);
  return all.slice(0, most - 1 - half).join('') + '…' + all.slice(all.length - half).join('');
}

// --- what the server says ---

export function parseInfo(text) {
  const fields = {};
  for (const line of (text || '').split('\r\n')) {
    const at = line.indexOf(':');
    if (at > 0 && line[0] !== '#') {
      fields[line.slice(0, at)] = line.slice(at + 1);
    }
  }
  return fields;
}

// pairs are those of a value such as "keys=3,expires=0".
export function pairs(value, between = ',') {
  const all = {};
  for (const part of value.trim().split(between)) {
    const at = part.indexOf('=');
    if (at > 0) {
      all[part.slice(0, at)] = part.slice(at + 1);
    }
  }
  return all;
}

// family is the fields whose names begin alike, without that beginning.
export function family(info, prefix) {
  return Object.entries(info)
    .filter(([name]) => name.startsWith(prefix))
    .map(([name, value]) => [name.slice(prefix.length), value]);
}
