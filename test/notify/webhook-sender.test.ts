/** Which addresses webhooks may lead to, and that no trick leads elsewhere. */
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { test } from 'node:test';
import { webhookSender } from '../../transports/clients/webhooks/sender.ts';
import { isCallablePort, isPublic, parseNetworks } from '../../transports/clients/webhooks/targets.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { certificate } from '../support/notify/certificate.ts';
import { startReceiver } from '../support/notify/receiver.ts';
import { freePort } from '../support/temp.ts';

failOnLeaks();

const nothing = () => false;
const here = parseNetworks('127.0.0.0/8') ?? assert.fail();
const BODY = JSON.stringify({
  type: 'test',
  timestamp: new Date(0).toISOString(),
  data: { event_id: 'e', user_id: 'u', title: 't', message: 'm', link: '', category: '', scope: '' },
});
const to = (url: string) => ({ url, headers: { 'webhook-id': 'e' }, body: BODY });
const forbidden = { name: 'WebhookError', code: 'forbidden' };

test('only addresses of the public internet are public', () => {
  const own = Object.values(networkInterfaces()).flatMap((all) => all?.map(({ address }) => address) ?? []);
  const closed = [
    ...['127.0.0.1', '127.9.9.9', '0.0.0.0', '10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1'],
    ...['100.64.0.1', '100.100.100.200', '169.254.169.254', '168.63.129.16', '192.0.0.192', '198.18.0.1'],
    ...['224.0.0.1', '255.255.255.255', '240.0.0.1', '192.0.2.1', '198.51.100.1', '203.0.113.1'],
    ...['::', '::1', 'fe80::1', 'fe80::1%eth0', 'fc00::1', 'fd00:ec2::254', 'ff02::1', '2001:db8::1'],
    ...['::ffff:127.0.0.1', '::ffff:7f00:1', '::ffff:8.8.8.8', '::7f00:1', '64:ff9b::7f00:1', '64:ff9b:1::1'],
    ...['2002:7f00:1::', '2001::1', '3fff::1', '', 'localhost', '1.2.3', ...own],
  ];
  for (const address of closed) assert.equal(isPublic(address), false, address);
  for (const address of ['8.8.8.8', '1.1.1.1', '172.32.0.1', '100.128.0.1', '2606:4700:4700::1111', '2a00:1450::1'])
    assert.equal(isPublic(address), true, address);
  assert.deepEqual([25, 22, 6, 80, 443, 1023, 1024, 8443].filter(isCallablePort), [80, 443, 1024, 8443]);
});

test('networks are read as they are meant, or not at all', () => {
  for (const text of ['', '10.0.0.0/33', '10.0.0', 'fd00::/129', 'a.example', '10.0.0.0/8/1', 'fe80::1%lo/64'])
    assert.equal(parseNetworks(text), undefined, text);
  const both = parseNetworks('10.0.0.0/8, fd00::/8') ?? assert.fail();
  assert.deepEqual(['10.1.2.3', 'fd12::1', '11.0.0.1', 'x'].map(both), [true, true, false, false]);
});

test('no way to write an address leads to one that is not public', async () => {
  const sender = webhookSender({ allowed: nothing, resolve: async () => assert.fail('nothing is looked up') });
  const urls = [
    ...['https://127.0.0.1/', 'https://2130706433/', 'https://0x7f.1/', 'https://0177.0.0.1/', 'https://127.1/'],
    ...['https://[::1]/', 'https://[::ffff:127.0.0.1]/', 'https://[::ffff:a9fe:a9fe]/', 'https://169.254.169.254/'],
    ...['https://①②⑦.0.0.1/', 'https://[fd00:ec2::254]/', 'https://0/', 'http://127.0.0.1/', 'http://8.8.8.8/'],
    ...['https://user@8.8.8.8/', 'https://8.8.8.8/#x', 'https://8.8.8.8:25/', 'ftp://8.8.8.8/', 'file:///etc/passwd'],
    ...['gopher://8.8.8.8/', 'nonsense'],
  ];
  for (const url of urls) {
    await assert.rejects(sender.check(url), forbidden, url);
    await assert.rejects(sender.send(to(url), new AbortController().signal), forbidden, url);
  }
  await sender.check('https://8.8.8.8/');
});

test('of a name all addresses must be allowed, and a name without any leads nowhere', async () => {
  const names: Readonly<Record<string, readonly string[]>> = {
    'good.example': ['8.8.8.8', '2606:4700::1'],
    'half.example': ['8.8.8.8', '10.0.0.1'],
    'mapped.example': ['8.8.8.8', '::ffff:10.0.0.1'],
    'empty.example': [],
  };
  const sender = webhookSender({ allowed: nothing, resolve: async (name) => names[name] ?? [] });
  await sender.check('https://good.example/');
  await assert.rejects(sender.check('https://half.example/'), forbidden);
  await assert.rejects(sender.check('https://mapped.example/'), forbidden);
  await assert.rejects(sender.check('https://empty.example/'), { code: 'unreachable' });
});

test('a name is looked up once, and the request goes to what was checked, however it changes', async (t) => {
  const receiver = await startReceiver(t);
  const answers = [['127.0.0.1'], ['10.0.0.1'], ['169.254.169.254']];
  let asked = 0;
  const sender = webhookSender({ allowed: here, resolve: async () => answers[asked++] ?? [] });
  const url = `http://rebinding.example:${receiver.port}/hook`;
  assert.equal(await sender.send(to(url), new AbortController().signal), 204);
  assert.equal(asked, 1);
  assert.equal(receiver.hooks[0]?.headers.host, `rebinding.example:${receiver.port}`);
  await assert.rejects(sender.send(to(url), new AbortController().signal), forbidden);
  assert.equal(receiver.hooks.length, 1);
});

test('a certificate must be for the name and of an authority that is trusted', async (t) => {
  const tls = await certificate(t, 'hooks.example');
  const receiver = await startReceiver(t, undefined, tls);
  const resolve = async () => ['127.0.0.1'];
  const send = (name: string, ca?: string) =>
    webhookSender({ allowed: here, resolve, ...(ca === undefined ? {} : { ca }) }).send(
      to(`https://${name}:${receiver.port}/`),
      new AbortController().signal,
    );
  assert.equal(await send('hooks.example', tls.cert), 204);
  await assert.rejects(send('other.example', tls.cert), { message: 'Its certificate is for another name.' });
  await assert.rejects(send('hooks.example'), { code: 'unreachable', message: /not of an authority/ });
  assert.equal(receiver.hooks.length, 1);
});

test('whoever answers with something else than HTTP, or ends the connection, has not answered', async (t) => {
  const answers = [
    'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n',
    'SSH-2.0-x\r\n',
    '',
  ];
  for (const answer of answers) {
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => void socket.end(answer));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => new Promise((resolve) => void server.close(resolve)));
    const address = server.address();
    assert.ok(typeof address === 'object' && address !== null);
    const sender = webhookSender({ allowed: here });
    const sent = sender.send(to(`http://127.0.0.1:${address.port}/`), new AbortController().signal);
    await assert.rejects(sent, { name: 'WebhookError', code: 'unreachable' }, JSON.stringify(answer));
  }
});

test('who does not answer in time, refuses, or is given up, is told apart', async (t) => {
  const receiver = await startReceiver(t, () => () => undefined);
  const sender = webhookSender({ allowed: here, timeoutMs: 200 });
  const never = new AbortController().signal;
  await assert.rejects(sender.send(to(receiver.url), never), { code: 'timeout' });
  const slowNames = webhookSender({ allowed: here, timeoutMs: 50, resolve: () => new Promise(() => undefined) });
  await assert.rejects(slowNames.send(to('https://slow.example/'), never), { code: 'timeout' });
  await assert.rejects(sender.send(to(`http://127.0.0.1:${await freePort()}/`), never), {
    message: 'It refuses connections.',
  });
  const patient = webhookSender({ allowed: here });
  const ending = new AbortController();
  const sent = patient.send(to(receiver.url), ending.signal);
  ending.abort(new Error('the service ends'));
  await assert.rejects(sent, /the service ends/);
});
