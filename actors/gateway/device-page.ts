/**
 * The page `https://<domain>/device`, where a person approves the login of a program, for a gateway without the
 * console, which has a page of its own for this. It shows who asks, and does nothing that a person has not pressed a
 * button for. Its session is in the cookie, which its own script cannot read. Plain files of the gateway: no script
 * and no style in the page.
 */
import type { ProxyReply } from '../../proto/gateway/traffic.ts';

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Approve a login</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/device.css">
<script src="/device.js" defer></script>
</head>
<body>
<main>
<h1>Approve a login</h1>
<noscript><p>This page needs JavaScript.</p></noscript>
<p id="said" role="status" aria-live="polite"></p>
<form id="login" hidden>
<p>Log in first.</p>
<label>Username <input name="username" autocomplete="username" autocapitalize="none" spellcheck="false"
required></label>
<label>Password <input name="password" type="password" autocomplete="current-password" required></label>
<button>Log in</button>
</form>
<form id="code" hidden>
<p>Logged in as <strong id="who"></strong>. Enter the code that the program shows.</p>
<label>Code <input name="code" autocomplete="off" autocapitalize="characters" spellcheck="false" maxlength="16"
required></label>
<button>Continue</button>
<button id="leave" type="button">Log out</button>
</form>
<section id="ask" hidden>
<p>A program asks to act as <strong id="as"></strong>: with your containers, keys and settings, until its session
ends.</p>
<dl><dt>Code</dt><dd id="shown"></dd><dt>Machine</dt><dd id="name"></dd><dt>Address</dt><dd id="address"></dd></dl>
<p>Approve only if you started this login yourself, and the program shows this code.</p>
<button id="approve" type="button">Approve</button>
<button id="refuse" type="button">Refuse</button>
</section>
</main>
</body>
</html>
`;

const STYLE = `:root { color-scheme: light dark; }
body { margin: 0; font: 1rem/1.55 system-ui, sans-serif; }
main { max-width: 30rem; margin: 0 auto; padding: clamp(1.5rem, 6vw, 4rem) 1rem; }
h1 { margin: 0 0 1rem; font-size: 1.5rem; line-height: 1.2; }
label { display: block; margin: .75rem 0; }
input { display: block; width: 100%; box-sizing: border-box; margin-top: .25rem; padding: .6rem; font: inherit; }
[name=code], #shown { font-family: ui-monospace, monospace; letter-spacing: .1em; }
button { min-height: 2.75rem; margin: .5rem .5rem 0 0; padding: .5rem 1.25rem; font: inherit; }
dl { display: grid; grid-template-columns: auto 1fr; gap: .25rem 1rem; }
dd { margin: 0; overflow-wrap: anywhere; }
[hidden] { display: none; }
`;

const SCRIPT = `'use strict';
const find = (id) => document.getElementById(id);
const parts = ['login', 'code', 'ask'];
const show = (id) => {
  for (const part of parts) find(part).hidden = part !== id;
  if (id !== undefined) find(id).querySelector('input, button').focus();
};
const say = (text) => { find('said').textContent = text; };
const call = async (method, path, body, token) => {
  const headers = { 'x-troupe-session': 'cookie' };
  if (token !== undefined) headers.authorization = 'Bearer ' + token;
  const reply = await fetch(path, { method, headers, body: body && JSON.stringify(body), cache: 'no-store' });
  const text = await reply.text();
  let json = {};
  try { json = text === '' ? {} : JSON.parse(text); } catch { /* Not an answer of the platform. */ }
  if (reply.ok) return json;
  throw Object.assign(new Error(json.error || 'The platform does not answer: try again.'), { status: reply.status });
};
let user = '';
let code = location.hash.slice(1);
const loggedIn = (name) => {
  user = name;
  find('who').textContent = name;
  find('code').elements.code.value = code;
  show('code');
};
const decide = (decision) => call('POST', '/api/device/approve', { user_code: code, decision });
const attempt = (work) => async (event) => {
  event.preventDefault();
  say('');
  for (const button of document.querySelectorAll('button')) button.disabled = true;
  try {
    await work(event.target);
  } catch (error) {
    say(error.message);
    if (error.status === 401 && user !== '') { user = ''; show('login'); }
  }
  for (const button of document.querySelectorAll('button')) button.disabled = false;
};
find('login').addEventListener('submit', attempt(async (form) => {
  const { username, password } = form.elements;
  const first = await call('POST', '/api/login', { username: username.value, password: password.value });
  password.value = '';
  if (first.requires_2fa !== true) return loggedIn(first.username);
  say('Use your security key.');
  const { options, state } = await call('POST', '/api/webauthn/login/begin', undefined, first.challenge_token);
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options);
  const credential = (await navigator.credentials.get({ publicKey })).toJSON();
  const second = await call('POST', '/api/webauthn/login/finish', { state, credential });
  say('');
  loggedIn(second.username);
}));
find('code').addEventListener('submit', attempt(async (form) => {
  code = form.elements.code.value;
  const asked = await decide('show');
  find('as').textContent = user;
  find('shown').textContent = code.toUpperCase();
  find('name').textContent = asked.name;
  find('address').textContent = asked.address;
  show('ask');
}));
find('leave').addEventListener('click', attempt(async () => {
  await call('POST', '/api/logout');
  user = '';
  show('login');
}));
const ended = { approve: 'Approved. Go back to the program.', refuse: 'Refused. The program gets nothing.' };
for (const decision of ['approve', 'refuse'])
  find(decision).addEventListener('click', attempt(async () => {
    await decide(decision);
    show(undefined);
    say(ended[decision]);
  }));
call('GET', '/api/session').then(({ username }) => loggedIn(username), (error) => {
  if (error.status !== 401) say(error.message);
  show('login');
});
`;

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

const HEADERS = [
  ['Content-Security-Policy', POLICY],
  ['Cross-Origin-Opener-Policy', 'same-origin'],
  ['Cross-Origin-Resource-Policy', 'same-origin'],
  ['X-Content-Type-Options', 'nosniff'],
  ['Referrer-Policy', 'no-referrer'],
  ['Cache-Control', 'no-cache'],
] as const;

const FILES: ReadonlyMap<string, ProxyReply> = new Map(
  [
    ['/device', 'text/html', PAGE] as const,
    ['/device.js', 'text/javascript', SCRIPT] as const,
    ['/device.css', 'text/css', STYLE] as const,
  ].map(([path, type, body]) => [path, { status: 200, headers: HEADERS, contentType: `${type}; charset=utf-8`, body }]),
);

/** The page and its files, by path; undefined for all else. */
export function devicePage(path: string): ProxyReply | undefined {
  return FILES.get(path);
}
