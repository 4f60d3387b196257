/** A certificate that is replaced under a running gateway. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { rename, symlink, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { Admission } from '../../transports/gateway/tcp/admission.ts';
import { listenWires } from '../../transports/gateway/tcp/listen.ts';
import { TlsFront } from '../../transports/gateway/tls/front.ts';
import { keepCertificate } from '../../transports/gateway/tls/live-certificate.ts';
import { issueCertificate, makeAuthority } from '../../transports/gateway/tls/local-ca.ts';
import { describeCertificate, type Pem } from '../../transports/gateway/tls/pem.ts';
import { givenCertificate, localCertificate } from '../../transports/gateway/tls/platform-certificate.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { keptLog } from '../support/log.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const DAY = 86_400_000;

async function open(t: TestContext) {
  const folder = await tempDir(t);
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  const authority = await makeAuthority('Troupe (test)', Date.now());
  const issue = (name: string) => issueCertificate(authority, [name, 'a.cloud.test'], Date.now());
  const write = async (pem: Pem) => {
    await writeFile(cert, pem.cert);
    await writeFile(key, pem.key);
  };
  await write(await issue('first.test'));
  const log = keptLog();
  const live = await keepCertificate(() => givenCertificate(cert, key), log, 10);
  t.after(() => live.close());
  const front = new TlsFront({
    decide: () => ({ end: live.context }),
    onPlain: (socket) => {
      socket.on('error', () => {}).on('end', () => socket.end());
      socket.on('data', () => socket.end());
    },
    onPass: () => {},
  });
  const listener = await listenWires('127.0.0.1', 0, new Admission(), (wire, address) => front.accept(wire, address));
  t.after(() => listener.close());
  /** What OpenSSL's client is shown. */
  const shown = async (...more: string[]) => {
    // What asks for a session says something and waits for the end, so that the session has come.
    const waits = more.includes('-sess_out');
    const child = promisify(execFile)('openssl', [
      ...['s_client', '-connect', `127.0.0.1:${listener.port}`, '-servername', 'a.cloud.test', ...more],
      ...(waits ? ['-ign_eof'] : []),
    ]);
    child.child.stdin?.end(waits ? 'hello\n' : '');
    return (await child).stdout;
  };
  return { folder, cert, key, issue, write, log, shown, live };
}

test('a certificate that is replaced is shown to the next client, however it was replaced', async (t) => {
  const { folder, cert, key, issue, write, log, shown } = await open(t);
  const shows = (name: string) =>
    until(async () => (await shown()).includes(`subject=CN = ${name}`), { what: `${name} is shown`, everyMs: 50 });
  await shows('first.test');
  await write(await issue('second.test'));
  await shows('second.test');
  // Moved into place, and behind symbolic links that are turned, as Kubernetes does.
  const third = await issue('third.test');
  await writeFile(join(folder, 'next.pem'), third.cert);
  await writeFile(join(folder, 'next-key.pem'), third.key);
  await rename(join(folder, 'next-key.pem'), key);
  await rename(join(folder, 'next.pem'), cert);
  await shows('third.test');
  const fourth = await issue('fourth.test');
  await writeFile(join(folder, '4.pem'), fourth.cert);
  await writeFile(join(folder, '4-key.pem'), fourth.key);
  await unlink(cert);
  await symlink('4.pem', cert);
  await unlink(key);
  await symlink('4-key.pem', key);
  await shows('fourth.test');
  assert.ok(log.lines.some(({ message }) => message === 'the certificate was replaced'));
});

/** In one step, so that nobody sees a part of it. */
async function replace(file: string, text: string): Promise<void> {
  await writeFile(`${file}.new`, text);
  await rename(`${file}.new`, file);
}

test('one that cannot be used is not taken: the one before goes on, and the log says so once', async (t) => {
  const { cert, key, issue, log, shown } = await open(t);
  const warnings = () => log.lines.filter(({ level }) => level === 'warn').length;
  const next = await issue('next.test');
  await replace(cert, next.cert); // Its key is not there yet.
  await until(() => warnings() === 1, { what: 'it is said' });
  assert.match(await shown(), /subject=CN = first\.test/);
  await replace(key, next.key);
  await until(async () => (await shown()).includes('subject=CN = next.test'), { what: 'both are there', everyMs: 50 });
  for (const [count, spoil] of [
    [2, () => unlink(cert)],
    [3, () => writeFile(cert, '')], // Somebody has just begun to write it.
  ] as const) {
    await spoil();
    await until(() => warnings() === count, { what: 'it is said' });
    assert.match(await shown(), /subject=CN = next\.test/);
  }
});

test('clients of OpenSSL resume, in TLS 1.2 and 1.3, and get HTTP/1.1 and nothing older', async (t) => {
  const { folder, shown } = await open(t);
  assert.match(await shown('-tls1_2', '-reconnect'), /(Reused, TLSv1\.2[\s\S]*){5}/);
  const session = join(folder, 'session.pem');
  await shown('-tls1_3', '-sess_out', session);
  assert.match(await shown('-tls1_3', '-sess_in', session), /Reused, TLSv1\.3/);
  assert.match(await shown('-alpn', 'h2,http/1.1'), /ALPN protocol: http\/1\.1/);
  await assert.rejects(shown('-alpn', 'h2'));
  await assert.rejects(shown('-tls1_1', '-cipher', 'DEFAULT@SECLEVEL=0'));
});

test('the platform’s own certificate is made anew before it ends', async (t) => {
  const folder = await tempDir(t);
  let now = Date.now();
  const log = keptLog();
  const domains = { domain: 'cloud.test', containers: 'compute.cloud.test' };
  const first = await localCertificate(folder, domains, now);
  const live = await keepCertificate(() => localCertificate(folder, domains, now), log, 10);
  t.after(() => live.close());
  assert.deepEqual(live.authorityFile, first.authorityFile);
  now += 380 * DAY;
  // What has changed on disk is looked at, and what is found is too old.
  await writeFile(join(folder, 'tls.pem'), `${readFileSync(join(folder, 'tls.pem'), 'utf8')}\n`);
  await until(() => log.lines.some(({ message }) => message === 'the certificate was replaced'), {
    what: 'it is made anew',
  });
  const { names, notAfter } = describeCertificate(readFileSync(join(folder, 'tls.pem'), 'utf8'));
  assert.deepEqual(names, ['cloud.test', '*.cloud.test', '*.compute.cloud.test']);
  assert.ok(notAfter.getTime() > now + 300 * DAY);
});
