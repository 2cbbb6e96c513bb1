// The live page: it asks the server each two seconds, and draws what it hears.

import { $, say, clock, parseInfo } from './draw.js';
import { drawCharts, recolour, RANGES, unzoom, whenZoomed, withGaps, zoomed } from './charts.js';
import { drawState, makePanels, makeTiles } from './panels.js';
import { startConsole } from './console.js';

const STATE_EVERY = 2000; // ms between two looks at the server

let range = 'minutes'; // which history the charts show
let paused = false;
let timer = 0; // of the next look
let last = null; // the last look at the server
const points = {}; // by range, as the server has sent them

// --- asking ---

class NeedsToken extends Error {}

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
    throw new NeedsToken();
  }
  if (!response.ok) {
    throw new Error(`${response.status}: ${(await response.text()).trim()}`);
  }
  $('login').hidden = true;
  say($('refused'), '');
  return response.json();
}

// askToken has the reader give a token. refused is one that was given and is not the server's.
function askToken(refused) {
  $('login').hidden = false;
  $('state').hidden = true;
  if (refused) {
    say($('refused'), 'That is not the token.');
    sessionStorage.removeItem('token');
  }
  if (document.activeElement === document.body) {
    $('token').focus();
  }
}

// askHistory gets the points that are new. Those of a range are at most as many as the server keeps.
async function askHistory(name) {
  const known = points[name];
  const since = known && known.at.length ? known.at[known.at.length - 1] : 0;
  const more = await ask(`/live/history?range=${name}&since=${since}`);
  if (!since) {
    points[name] = more;
    return;
  }
  const most = RANGES[name] / more.step;
  for (const key of Object.keys(more)) {
    if (key !== 'step') {
      known[key] = known[key].concat(more[key]).slice(-most);
    }
  }
}

// finest is the finest range that reaches back to a time.
function finest(from) {
  const now = Date.now() / 1000;
  return Object.keys(RANGES).find((name) => RANGES[name] <= RANGES[range] && now - RANGES[name] <= from) || range;
}

// look asks and draws, one after the other: an old look never draws over a new one.
let looks = Promise.resolve();
function look() {
  looks = looks.then(lookNow);
  return looks;
}

async function lookNow() {
  clearTimeout(timer);
  let again = !paused;
  try {
    const seen = await ask('/live/state');
    const name = zoomed() ? finest(zoomed()[0]) : range;
    if (seen.state) {
      await askHistory('minutes');
      if (name !== 'minutes') {
        await askHistory(name);
      }
      last = seen;
    }
    $('state').hidden = false;
    drawState(seen.health, seen.at);
    draw(seen.at / 1000, name);
    say($('heard'), seen.state ? `as of ${clock(seen.at / 1000)}` : 'The figures below are old.');
    say($('updated'), `As of ${clock(seen.at / 1000)}.`);
    document.body.dataset.looks = Number(document.body.dataset.looks || 0) + 1;
  } catch (e) {
    if (e instanceof NeedsToken) {
      again = false; // until it is given
    } else {
      noFigures(e.message);
    }
  }
  if (again) {
    timer = setTimeout(look, STATE_EVERY);
  }
}

function noFigures(why) {
  $('state').hidden = false;
  $('state').className = 'state bad';
  say($('sign'), '✖');
  say($('said'), `No figures: ${why}`);
}

// --- drawing ---

const drawPanels = makePanels(ask);
const drawTiles = makeTiles();

function draw(now, name) {
  if (!last) {
    return;
  }
  const info = parseInfo(last.state.info);
  $('main').hidden = false;
  drawPanels(info, last.state.replies, last.health, last.state);
  $('tiles').hidden = false;
  drawTiles(info, points.minutes);
  drawCharts(withGaps(points[name]), now, range, last.health.events);
  $('unzoom').hidden = !zoomed();
  const port = info.tcp_port || '';
  say($('name'), `spindle :${port}`);
  say($('what'),
    `${info.role === 'slave' ? 'replica' : 'primary'}, ${info.redis_mode}, version ${info.spindle_version}, ` +
    `process ${info.process_id}`);
  const wrong = last.health.now.filter((t) => t.level !== 'note').length;
  document.title = `${wrong ? `(${wrong}) ` : ''}${info.instantaneous_ops_per_sec}/s – spindle :${port}`;
  $('console').hidden = !last.state.console;
  say($('console-user'), last.state.console);
}

// --- what the reader does ---

function setRange(name) {
  range = name;
  for (const id of Object.keys(RANGES)) {
    $(id).setAttribute('aria-pressed', String(id === name));
  }
  unzoom();
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

const THEMES = ['auto', 'light', 'dark'];

function setTheme(theme) {
  if (theme === 'auto') {
    document.documentElement.removeAttribute('data-theme');
  } else {
    document.documentElement.dataset.theme = theme;
  }
  $('theme').textContent = 'Theme: ' + theme;
  localStorage.setItem('theme', theme);
  recolour();
}

function nextTheme() {
  const now = THEMES.indexOf(localStorage.getItem('theme') || 'auto');
  setTheme(THEMES[(now + 1) % THEMES.length]);
}

for (const name of Object.keys(RANGES)) {
  $(name).addEventListener('click', () => setRange(name));
}
$('unzoom').addEventListener('click', unzoom);
$('pause').addEventListener('click', togglePause);
$('theme').addEventListener('click', nextTheme);
whenZoomed(look);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', recolour);
$('login').addEventListener('submit', (e) => {
  e.preventDefault();
  sessionStorage.setItem('token', $('token').value);
  $('token').value = '';
  look();
});

const KEYS = {
  1: () => setRange('minutes'),
  2: () => setRange('hour'),
  3: () => setRange('day'),
  0: unzoom,
  p: togglePause,
  r: look,
  t: nextTheme,
  '/': () => $('line').focus(),
};

document.addEventListener('keydown', (e) => {
  const act = KEYS[e.key];
  if (!act || e.ctrlKey || e.metaKey || e.altKey || e.target.tagName === 'INPUT') {
    return;
  }
  e.preventDefault();
  act();
});

startConsole(ask);
setTheme(localStorage.getItem('theme') || 'auto');
look();
