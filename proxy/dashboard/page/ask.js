// Requests to the dashboard. The token is in this module's memory alone: it is gone with the page.

let token = '';

export const setToken = (text) => { token = text; };
export const hasToken = () => token !== '';

// A Refusal is an answer that is no success. code is for programs; active is the dashboard to ask instead.
export class Refusal extends Error {
  constructor(status, code, message, active) {
    super(message);
    Object.assign(this, { status, code, active });
  }
}

const SLOW = 90000; // ms for what waits for servers
const QUICK = 10000;

// ask sends one request and returns the answer's JSON.
export async function ask(method, path, body) {
  const headers = {};
  if (token) {
    headers.Authorization = 'Bearer ' + token;
  }
  if (body !== undefined) {
    headers['Content-Type'] = 'application/json';
  }
  const response = await fetch(path, {
    method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: 'no-store', redirect: 'manual',
    credentials: 'omit', signal: AbortSignal.timeout(method === 'GET' ? QUICK : SLOW),
  });
  if (response.type === 'opaqueredirect') {
    const health = await (await fetch('/healthz', { cache: 'no-store' })).json();
    throw new Refusal(307, 'not_active', 'This dashboard is ready, and another one is active.', health.active);
  }
  let answer = null;
  try {
    answer = await response.json();
  } catch (e) {
    throw new Refusal(response.status, 'failed', `The answer is no JSON: status ${response.status}.`);
  }
  if (!response.ok) {
    const { code, message } = answer.error || {};
    throw new Refusal(response.status, code || 'failed', message || `status ${response.status}`);
  }
  return answer;
}

// pathOf is the address of something in the API. Every part is escaped.
export const pathOf = (...parts) => '/v1/' + parts.map(encodeURIComponent).join('/');
