/** Certificates in a cluster of real gateway processes that are killed on purpose. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import { connect } from 'node:tls';
import { skipWithoutDocker } from '../support/engine/docker-client.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { openGatewayProcesses } from '../support/network/gateways.ts';
import { PATIENT } from '../support/network/issuing.ts';
import { skipWithoutPebble } from '../support/network/pebble.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const skip = skipWithoutPebble() || skipWithoutDocker();

/** Does a handshake; the subject of the certificate, which must be good. */
async function visit(port: number, servername: string, ca: string): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', servername, ca });
  try {
    await once(socket, 'secureConnect');
    return socket.getPeerCertificate().subjectaltname ?? '';
  } finally {
    socket.destroy();
  }
}

describe('three gateway processes', { skip, timeout: 900_000 }, () => {
  test('asked for one hostname at once place one order, and whichever the authority reaches answers', async (t) => {
    const processes = await openGatewayProcesses(t);
    const gateways = await Promise.all([processes.start(), processes.start(), processes.start()]);
    const names = ['one.example.com', 'two.example.com', 'three.example.com'];
    for (const name of names) {
      const visits = gateways.flatMap(({ https }) => [1, 2, 3].map(() => visit(https, name, '').catch(() => '')));
      await processes.map(name);
      await Promise.all(visits);
    }
    await processes.issued(...names);
    assert.equal(processes.pebble.orders(), names.length);
    // The authority came by the balancer, and so to all of them; only one of them had ordered.
    for (const { https } of gateways)
      assert.ok((processes.balancer.taken.get(https) ?? 0) > 0, `${https} was never asked`);
    const ca = await processes.pebble.root();
    for (const { https } of gateways)
      for (const name of names)
        await until(async () => (await visit(https, name, ca).catch(() => '')) === `DNS:${name}`, {
          ...{ ...PATIENT, what: `${name} at every gateway` },
        });
    const outcomes = await Promise.all(gateways.map((gateway) => gateway.metrics()));
    const issued = outcomes.map((text) => Number(/orders_total\{outcome="issued"\} (\d+)/.exec(text)?.[1] ?? 0));
    assert.equal(
      issued.reduce((sum, n) => sum + n, 0),
      names.length,
    );
    assert.equal(processes.pebble.orders(), names.length);
    for (const gateway of gateways) assert.equal(await gateway.stop(), 0);
  });

  test('killed in the middle of orders, wherever each of them stood, another finishes them and places none', async (t) => {
    const processes = await openGatewayProcesses(t);
    const { front } = processes;
    const first = await processes.start();
    // The authority takes the words of these orders, and never answers: before the challenge, before issuance, before the chain.
    const held = new Set<string>();
    const reached = new Set<string>();
    front.answer = ({ url = '' }) => {
      const kind = [...held].find((prefix) => url.startsWith(prefix));
      if (kind !== undefined) reached.add(kind);
      return kind !== undefined;
    };
    const names = ['chain.example.com', 'issuance.example.com', 'challenge.example.com'];
    for (const [n, prefix] of ['/certZ/', '/finalize-order/', '/authZ/'].entries()) {
      held.add(prefix);
      await processes.map(names[n] ?? '');
      await until(() => reached.has(prefix), { ...PATIENT, what: `an order at ${prefix}` });
    }
    await first.kill();
    assert.equal(processes.pebble.orders(), names.length);
    assert.equal(await processes.db.run('select from certificates where order_url is not null'), names.length);
    front.answer = undefined;
    await processes.start();
    await processes.issued(...names);
    assert.equal(processes.pebble.orders(), names.length);
    const ca = await processes.pebble.root();
    for (const name of names) assert.equal(await visit(processes.balancer.port, name, ca), `DNS:${name}`);
  });
});
