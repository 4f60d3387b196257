/** What the gateway keeps of certificates and challenges: bounded, shared, and never older than what it was told. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { CertificatePem } from '../../proto/ports/acme.ts';
import { issueCertificate, makeAuthority } from '../../transports/gateway/tls/local-ca.ts';
import { PendingChallenges, ServedCertificates } from '../../transports/gateway/tls/mapped-certificates.ts';

const pem = async () => issueCertificate(await makeAuthority('Test', Date.now()), ['a.test'], Date.now());

describe('certificates that are served', () => {
  test('are read once for all that ask at once, and again when they were replaced', async () => {
    const one = await pem();
    let reads = 0;
    const served = new ServedCertificates(async () => {
      reads++;
      return one;
    });
    const [a, b] = await Promise.all([served.get('a.test'), served.get('a.test')]);
    assert.ok(a !== undefined && a === b);
    assert.equal(served.get('a.test'), a);
    assert.equal(reads, 1);
    served.forget('a.test');
    assert.notEqual(await served.get('a.test'), a);
    assert.equal(reads, 2);
  });

  test('that were replaced while they were read are not kept', async () => {
    const one = await pem();
    let answer: (pem: CertificatePem | undefined) => void = () => {};
    let reads = 0;
    const served = new ServedCertificates(() => {
      reads++;
      return new Promise((resolve) => {
        answer = resolve;
      });
    });
    const early = served.get('a.test');
    const answerEarly = answer;
    served.forget('a.test');
    const late = served.get('a.test');
    answer(one);
    assert.ok((await late) !== undefined);
    answerEarly(undefined);
    assert.equal(await early, undefined);
    assert.ok((await served.get('a.test')) !== undefined);
    assert.equal(reads, 2);
  });

  test('are bounded, and what is absent is asked for once', async () => {
    const one = await pem();
    let reads = 0;
    const served = new ServedCertificates(async (name) => {
      reads++;
      return name.startsWith('none') ? undefined : one;
    }, 3);
    for (let i = 0; i < 10; i++) await served.get(`${i}.test`);
    assert.equal(served.size, 3);
    reads = 0;
    for (let i = 0; i < 10; i++) assert.equal(await served.get('none.test'), undefined);
    assert.equal(reads, 1);
    served.forget('none.test');
    await served.get('none.test');
    assert.equal(reads, 2);
  });
});

describe('pending challenges', () => {
  test('however many names are asked for, one read is under way, and who comes later is not told the past', async () => {
    const one = await pem();
    const put = new Map<string, CertificatePem>();
    const reads: (readonly string[])[] = [];
    let release: () => void = () => {};
    const challenges = new PendingChallenges(async (names) => {
      reads.push(names);
      const found = new Map(put);
      if (reads.length === 1)
        await new Promise<void>((resolve) => {
          release = resolve;
        });
      return found;
    });
    const first = challenges.get('a.test');
    await Promise.resolve();
    await Promise.resolve();
    assert.equal(reads.length, 1);
    put.set('a.test', one);
    const others = Array.from({ length: 5000 }, (_, i) => challenges.get(`${i}.test`));
    const over = challenges.get('a.test');
    release();
    assert.equal(await first, undefined);
    assert.ok((await Promise.all(others)).every((context) => context === undefined));
    // Beyond a thousand names nobody waits.
    assert.equal(await over, undefined);
    assert.equal(reads.length, 2);
    assert.equal(reads[1]?.length, 1000);
    assert.ok((await challenges.get('a.test')) !== undefined);
  });

  test('are asked for again after storage failed', async () => {
    let isAway = true;
    const challenges = new PendingChallenges(async () => {
      if (isAway) throw new Error('away');
      return new Map();
    });
    await assert.rejects(challenges.get('a.test'), /away/);
    isAway = false;
    assert.equal(await challenges.get('a.test'), undefined);
  });
});
