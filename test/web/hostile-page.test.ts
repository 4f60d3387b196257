/**
 * A page that a container serves, against the console in which somebody is logged in with the same browser. Both are of
 * one site, so the browser sends the session along: what keeps the page out must be tried with it.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { z } from 'zod';
import { request } from '../support/cluster/platform.ts';
import { suiteCleanup } from '../support/suite.ts';
import { until } from '../support/until.ts';
import { buildOfConsole } from '../support/web/console-build.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';
import { makeContainer, type OwnContainer } from '../support/web/own-container.ts';

const WORKER = "self.addEventListener('fetch', (event) => event.respondWith(new Response('of the container')));";

/** Shows `address` in all ways in which a page shows another. */
const FRAME = `(address) => {
  for (const [kind, attribute] of [['iframe', 'src'], ['object', 'data'], ['embed', 'src']]) {
    const frame = document.createElement(kind);
    frame.setAttribute(attribute, address);
    document.body.append(frame);
  }
  const sandboxed = document.createElement('iframe');
  sandboxed.setAttribute('sandbox', 'allow-scripts allow-forms allow-top-navigation');
  sandboxed.src = address;
  const refreshed = document.createElement('iframe');
  refreshed.srcdoc = '<meta http-equiv="refresh" content="0; url=' + address + '">';
  document.body.append(sandboxed, refreshed);
}`;

/** Opens a window, and keeps what it is given. */
const OPEN = `([address, name]) => {
  globalThis.heard = [];
  addEventListener('message', ({ data }) => heard.push(data));
  globalThis.lured = open(address, name);
}`;
/** All that can be done with that, and what came of it. */
const HANDLE = `async (address) => {
  const got = [];
  for (const [name, look] of Object.entries({
    document: () => lured.document?.body,
    address: () => lured.location.href,
    storage: () => lured.localStorage,
    frames: () => lured.frames.length || undefined,
    open: () => (lured.closed ? undefined : 'the window is held'),
    message: () => lured.postMessage('changed', '*'),
    navigation: () => void (lured.location = address),
    script: () => void (lured.location = 'javascript:document.title="owned"'),
  }))
    try {
      if (look() !== undefined) got.push(name);
    } catch { /* Refused. */ }
  return { got, heard };
}`;

/** Sends everything that a page may send without being asked, and with. Tells what could be read. */
const SEND = `async ({ console, calls, sockets, events }) => {
  const read = [];
  const types = ['text/plain', 'application/x-www-form-urlencoded', 'application/json'];
  for (const [method, path, body] of calls)
    for (const mode of ['no-cors', 'cors'])
      for (const type of method === 'GET' ? [undefined] : types)
        try {
          const headers = type === undefined ? {} : { 'content-type': type };
          const sent = body === undefined ? undefined : JSON.stringify(body);
          const reply = await fetch(console + path, { method, mode, headers, body: sent, credentials: 'include' });
          if (reply.type !== 'opaque') read.push(method + ' ' + path);
        } catch { /* Not sent, or not to be read. */ }
  for (const path of sockets)
    await new Promise((done) => {
      const socket = new WebSocket(console.replace('http', 'ws') + path);
      socket.onmessage = () => read.push(path);
      socket.onclose = done;
    });
  for (const path of events)
    await new Promise((done) => {
      const stream = new EventSource(console + path, { withCredentials: true });
      stream.onmessage = () => read.push(path);
      stream.onopen = () => read.push(path);
      stream.onerror = () => done(stream.close());
    });
  for (const [tag, attribute, paths] of [['script', 'src', ['/api/session', '/']], ['img', 'src', ['/icon.svg']]])
    for (const path of paths)
      await new Promise((done) => {
        const part = document.createElement(tag);
        part.onload = () => done(read.push(tag + ' ' + path));
        part.onerror = done;
        part.setAttribute(attribute, console + path);
        document.head.append(part);
      });
  return read;
}`;

/** Sends a form whose body is the JSON that the console would send, into a new window. */
const SEND_FORM = `([address, body]) => {
  const form = document.createElement('form');
  Object.assign(form, { method: 'POST', action: address, enctype: 'text/plain', target: '_blank' });
  const field = document.createElement('input');
  // The form puts a "=" between them.
  const [name, value] = (body ?? '{"a":"b"}').split(/(?<=^[^:]*:")/);
  Object.assign(field, { name: name + '=', value });
  form.append(field);
  document.body.append(form);
  form.submit();
}`;

const SHARE = `async ([console, worker]) => {
  const got = [];
  globalThis.channel = new BroadcastChannel('troupe-session');
  globalThis.onChannel = [];
  channel.onmessage = ({ data }) => onChannel.push(data);
  channel.postMessage('changed');
  const refused = async (name, begin) => {
    try {
      await begin();
      got.push(name);
    } catch { /* Refused. */ }
  };
  await refused('the shared worker', () => new Promise((done, fail) => {
    const shared = new SharedWorker(console + worker, { type: 'module', name: 'troupe-live' });
    shared.port.onmessage = done;
    shared.onerror = fail;
    shared.port.postMessage({ kind: 'follow', userId: '' });
  }));
  await refused('its script as a module', () => import(console + worker));
  await refused('a service worker of its scope', () =>
    navigator.serviceWorker.register('/worker.js', { scope: console + '/' }));
  await navigator.serviceWorker.register('/worker.js');
  await navigator.serviceWorker.ready;
  return got;
}`;

describe('a page of a container', {
  skip: withoutConsole,
  timeout: 900_000,
}, () => {
  const cleanup = suiteCleanup();
  let console: OpenedConsole;
  let container: OwnContainer;
  /** The page of the container, in the browser in which ann is logged in. */
  let tenant: Page;
  let address = '';
  /** A login of a program that waits for ann. */
  let device = { device_code: '', user_code: '' };

  before(async () => {
    console = await openConsole(cleanup);
    container = await makeContainer(cleanup, console, 'hostile');
    await container.sh(
      `mkdir /tmp/w && cd /tmp/w && echo "<!doctype html><title>Hostile</title><body></body>" > index.html &&
       echo "${WORKER}" > worker.js && httpd -p 8080 -h /tmp/w`,
    );
    await ask('POST', `${container.url}/ingress`, { port: 80, target_port: 8080 });
    const { port } = new URL(console.origin);
    address = `http://${container.id}.compute.troupe.localhost:${port}/`;
    const { auth } = console.platform.ready.urls;
    const begun = await request('POST', `${auth}/api/device`, { body: { name: 'a program of somebody' } });
    device = z.object({ device_code: z.string(), user_code: z.string() }).parse(begun.json);
    await console.open('/containers', 'Log in to troupe.localhost');
    await console.logIn();
    await console.heading('Containers').waitFor();
    tenant = await console.page.context().newPage();
    await until(async () => (await tenant.goto(address))?.status() === 200, { what: 'the page is served' });
  });

  const ask = async (method: string, url: string, body?: unknown) => {
    const { status, json } = await request(method, url, { token: container.token, body });
    assert.equal(status, 200, JSON.stringify(json));
    return json;
  };
  /** Calls a function of the container's page. */
  const attack = (source: string, argument: unknown): Promise<unknown> =>
    tenant.evaluate(`(${source})(${JSON.stringify(argument)})`);
  /** All that such a page could want to change. */
  const state = async () => {
    const { auth, compute } = console.platform.ready.urls;
    const { device_code } = device;
    const waits = await request('POST', `${auth}/api/device/token`, { body: { device_code } });
    const { list } = await ask('GET', `${auth}/api/settings/sessions`);
    const one = z.object({ id: z.string(), status: z.string(), name: z.string(), mount_paths: z.unknown() });
    return {
      profile: await ask('GET', `${auth}/api/session`),
      sessions: z.array(z.object({ id: z.unknown() })).parse(list).length,
      keys: await ask('GET', `${compute}/compute/ssh-keys`),
      tokens: await ask('GET', `${auth}/api/tokens`),
      containers: z.array(one).parse((await ask('GET', `${compute}/compute/containers`)).containers),
      ingress: await ask('GET', `${container.url}/ingress`),
      isDeviceWaiting: ['pending', 'slow_down'].includes(String(waits.json.status)),
    };
  };
  const calls = () =>
    [
      ['GET', '/api/session'],
      ['GET', '/api/settings/sessions'],
      ['GET', '/compute/containers'],
      ['GET', `/compute/containers/${container.id}/logs`],
      ['GET', '/'],
      ['POST', '/api/session/renew', {}],
      ['POST', '/api/device/approve', { user_code: device.user_code, decision: 'approve' }],
      ['POST', '/api/logout'],
      ['POST', `/compute/containers/${container.id}/stop`],
      ['POST', '/compute/ssh-keys', { name: 'theirs', public_key: 'ssh-ed25519 AAAA' }],
      ['PUT', '/api/settings/profile', { display_name: 'owned' }],
      ['DELETE', '/api/settings/sessions'],
      ['DELETE', `/compute/containers/${container.id}`],
    ] as const;
  /** Whether the console goes on, with the session that it had. */
  const goesOn = async () => {
    await console.open('/settings', 'Settings');
    assert.deepEqual(console.complaints, []);
  };

  test('shows no part of the console in itself', async () => {
    await attack(FRAME, address);
    const frames = () => tenant.frames().filter((frame) => frame !== tenant.mainFrame());
    await until(() => frames().filter((frame) => frame.url() === address).length >= 4, { what: 'it shows itself so' });
    await tenant.goto(address);
    await attack(FRAME, `${console.origin}/containers`);
    const blocked = () => frames().filter((frame) => frame.url().startsWith('chrome-error:'));
    await until(() => blocked().length >= 3, { what: 'frames are refused' });
    assert.deepEqual(
      frames().filter((frame) => frame.url().startsWith(console.origin)),
      [],
    );
    await tenant.goto(address);
  });

  test('has no hold of a window in which it opened the console', async () => {
    const opened = tenant.context().waitForEvent('page');
    await attack(OPEN, [`${console.origin}/containers`, 'lured']);
    const lured = await opened;
    await lured.getByRole('heading', { level: 1, name: 'Containers' }).waitFor();
    await lured.evaluate('addEventListener("message", ({ data }) => { document.title = "heard " + data; })');
    assert.deepEqual(await attack(HANDLE, `${console.origin}/settings`), { got: [], heard: [] });
    assert.deepEqual(await lured.evaluate('[opener, name, location.pathname]'), [null, '', '/containers']);
    const again = tenant.context().waitForEvent('page');
    await attack(OPEN, [`${console.origin}/keys`, 'lured']);
    await (await again).close();
    assert.equal(new URL(lured.url()).pathname, '/containers', 'a window of that name is another one');
    assert.equal(await lured.title(), 'Containers · Troupe');
    await lured.close();
  });

  test('makes the console do nothing by an address', async () => {
    const before = await state();
    for (const path of [
      `/device#${device.user_code}`,
      `/device?user_code=${device.user_code}&decision=approve#${device.user_code}`,
      `/containers/${container.id}/settings?delete=yes&confirm=hostile#delete`,
      `/containers/${container.id}/network?port=8001&target_port=22#open`,
      '/containers/new?name=theirs&create=yes#create',
      '/settings?display_name=owned#log-out',
      '/api/logout',
      '/logout',
    ]) {
      const opened = tenant.context().waitForEvent('page');
      await attack(OPEN, [`${console.origin}${path}`, '_blank']);
      const page = await opened;
      await page.waitForLoadState('networkidle');
      await page.close();
    }
    assert.deepEqual(await state(), before);
    await goesOn();
  });

  test('reads nothing and does nothing by requests, sockets and streams, though the session comes along', async () => {
    const before = await state();
    const wire = await tenant.context().newCDPSession(tenant);
    let withCookie = 0;
    wire.on('Network.requestWillBeSentExtraInfo', ({ associatedCookies }) => {
      if (associatedCookies.some(({ cookie, blockedReasons }) => cookie.name === '__Host-troupe' && !blockedReasons[0]))
        withCookie++;
    });
    await wire.send('Network.enable');
    const sockets = ['/ws/notifications', '/compute/ws', '/ws/pod-metrics'];
    sockets.push(`/compute/containers/${container.id}/terminal`, `/compute/containers/${container.id}/logs`);
    const sent = { console: console.origin, calls: calls(), sockets, events: ['/pod-metrics', '/cluster-info'] };
    assert.deepEqual(await attack(SEND, sent), []);
    assert.ok(withCookie >= calls().length, `${withCookie} requests had the session: else nothing is shown`);
    await wire.detach();
    assert.deepEqual(await state(), before);
    await goesOn();
  });

  test('does nothing by forms, which lead the window to the console', async () => {
    const before = await state();
    for (const [method, path, body] of calls().filter(([way]) => way === 'POST')) {
      const opened = tenant.context().waitForEvent('page');
      await attack(SEND_FORM, [`${console.origin}${path}`, body === undefined ? null : JSON.stringify(body)]);
      const page = await opened;
      await page.waitForLoadState();
      assert.equal(new URL(page.url()).pathname, path, `${method} was sent`);
      await page.close();
    }
    assert.deepEqual(await state(), before);
    await goesOn();
  });

  test('shares no channel and no worker with it', async () => {
    const worker = readdirSync(join(buildOfConsole.folder, 'assets')).find((name) => /^worker-.*[.]js$/.test(name));
    assert.ok(worker !== undefined);
    assert.deepEqual(await attack(SHARE, [console.origin, `/assets/${worker}`]), []);
    await console.browser.run('() => new BroadcastChannel("troupe-session").postMessage("changed")');
    await goesOn();
    assert.deepEqual(await tenant.evaluate('onChannel'), []);
    await tenant.reload();
    assert.equal(await tenant.evaluate('fetch("/anything").then((reply) => reply.text())'), 'of the container');
  });

  test('changes nothing by cookies for the whole domain', async () => {
    await tenant.evaluate(`(() => {
      for (const domain of ['; Domain=troupe.localhost', ''])
        for (const name of ['__Host-troupe', '__Host-token', 'token', '__Secure-troupe', 'troupe'])
          document.cookie = name + '=theirs; Path=/; Secure' + domain;
    })()`);
    const cookies = await tenant.context().cookies(console.origin);
    assert.deepEqual(
      cookies.filter(({ name }) => name.startsWith('__Host-')).map(({ value }) => value === 'theirs'),
      [false],
    );
    assert.ok(cookies.some(({ name, value }) => name === 'token' && value === 'theirs'));
    for (const [path, name, shown] of [
      ['/hostnames', 'Hostnames', 'No hostname yet'],
      ['/containers', 'Containers', 'hostile'],
      ['/keys', 'SSH keys', 'key of hostile'],
    ] as const) {
      await console.open(path, name);
      await console.text(shown).waitFor();
    }
    await console.open('/hostnames', 'Hostnames');
    await console.button('Map a hostname').first().click();
    await console.page.getByRole('textbox', { name: 'Hostname' }).fill('www.hostile.com');
    await console.button('Map it').click();
    await console.text('www.hostile.com').waitFor();
    await console.page.getByRole('dialog').waitFor({ state: 'detached' });
    await goesOn();
  });

  test('knows nothing of the console that it was opened from', async () => {
    await console.open(`/containers/${container.id}/network`, 'hostile');
    const opened = console.page.context().waitForEvent('page');
    await console.page.getByRole('link', { name: /^Open/ }).click();
    const page = await opened;
    await page.waitForLoadState();
    assert.equal(page.url(), address);
    assert.deepEqual(await page.evaluate('[opener, document.referrer]'), [null, '']);
  });
});
