import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  certificateDetail,
  concernsAccount,
  isGivenUp,
  renewAt,
  retryIn,
  whatToCheck,
} from '../../actors/network/certificate-rules.ts';
import { CaError } from '../../proto/ports/acme.ts';
import type { HostAddresses } from '../../proto/ports/dns.ts';

const DAY = 86_400_000;
const at = (day: number) => new Date(Date.UTC(2026, 0, 1) + day * DAY);

describe('the rules of certificates', () => {
  test('one is renewed when a third of its life is left', () => {
    assert.deepEqual(renewAt({ notBefore: at(0), notAfter: at(90) }, at(0)), at(60));
    assert.deepEqual(renewAt({ notBefore: at(0), notAfter: at(6) }, at(0)), at(4));
  });

  test('a clock that is wrong renews nothing again and again', () => {
    const life = { notBefore: at(0), notAfter: at(90) };
    assert.deepEqual(renewAt(life, at(-1)), at(60));
    assert.deepEqual(renewAt(life, at(1)), at(60));
    for (const far of [70, 100, 4000]) assert.deepEqual(renewAt(life, at(far)), at(far + 15));
  });

  test('refusals are at most four in an hour, and the wait grows to half a day', () => {
    let total = 0;
    let inFirstHour = 1;
    for (let attempts = 1; attempts < 20; attempts++) {
      const wait = retryIn({ code: 'refused', retryAfterMs: undefined }, attempts, 0);
      total += wait;
      if (total <= 3_600_000) inFirstHour++;
      assert.ok(wait <= 12 * 3_600_000);
    }
    assert.equal(inFirstHour, 4);
    assert.equal(retryIn({ code: 'refused', retryAfterMs: undefined }, 100, 0), 12 * 3_600_000);
  });

  test('an outage is tried again soon, and what the authority says is never undercut', () => {
    assert.equal(retryIn({ code: 'unavailable', retryAfterMs: undefined }, 1, 0), 2000);
    assert.equal(retryIn({ code: 'unavailable', retryAfterMs: undefined }, 50, 0), 600_000);
    for (const code of ['unavailable', 'rate_limited', 'refused'] as const)
      assert.ok(retryIn({ code, retryAfterMs: 9_000_000 }, 1, 0) >= 9_000_000);
    assert.equal(retryIn({ code: 'rate_limited', retryAfterMs: undefined }, 1, 0), 3_600_000);
  });

  test('a limit is the whole account’s unless it names the hostname or a domain above it', () => {
    const error = (text: string, isAtOrder = true) => new CaError('rate_limited', text, { isAtOrder });
    assert.equal(concernsAccount(error('too many new orders recently'), 'a.example.com'), true);
    assert.equal(
      concernsAccount(error('too many certificates already issued for "example.com"'), 'a.example.com'),
      false,
    );
    assert.equal(concernsAccount(error('too many new orders recently', false), 'a.example.com'), false);
    assert.equal(concernsAccount(new CaError('refused', 'no', { isAtOrder: true }), 'a.example.com'), false);
  });

  test('an order that does not get on is looked at ten times, and then another is placed', () => {
    const given = Array.from({ length: 30 }, (_, n) => isGivenUp({ code: 'stuck' }, n + 1));
    assert.deepEqual(
      given.flatMap((isGiven, n) => (isGiven ? [n + 1] : [])),
      [10, 20, 30],
    );
    let waited = 0;
    for (let attempts = 1; attempts < 10; attempts++)
      waited += retryIn({ code: 'stuck', retryAfterMs: undefined }, attempts, 0);
    assert.ok(waited > 20 * 60_000 && waited < 3_600_000, String(waited));
    assert.equal(isGivenUp({ code: 'refused' }, 1), true);
    for (const code of ['unavailable', 'rate_limited'] as const) assert.equal(isGivenUp({ code }, 10), false);
  });

  test('whose name leads elsewhere is told where, and where it should lead', () => {
    const found = (...addresses: string[]) => ({ kind: 'found', addresses }) as const;
    const said = (host: HostAddresses, ingress: HostAddresses) =>
      whatToCheck('a.example.com', host, 'in.cloud.test', ingress);
    assert.equal(
      said(found('192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4'), found('198.51.100.1')),
      'a.example.com leads to 192.0.2.1, 192.0.2.2, 192.0.2.3 and others, and not to in.cloud.test (198.51.100.1): make it a CNAME of in.cloud.test',
    );
    for (const [host, ingress] of [
      [found('192.0.2.1', '198.51.100.1'), found('198.51.100.1')],
      [{ kind: 'unknown' }, found('198.51.100.1')],
      [found('192.0.2.1'), { kind: 'none' }],
    ] as const)
      assert.match(
        said(host, ingress),
        /^Check that a\.example\.com is a CNAME of in\.cloud\.test, and that its port 443/,
      );
  });

  test('people are told what is waited for, and nothing when all is well', () => {
    const free = { left: 10, holdUntil: undefined, holdReason: undefined };
    const facts = { notAfter: at(90), isOrdering: false, attempts: 0, nextTry: undefined, error: undefined };
    assert.equal(certificateDetail(facts, free, at(1)), undefined);
    assert.match(certificateDetail(facts, free, at(91)) ?? '', /has been over since 2026-04-01/);
    assert.match(certificateDetail(undefined, free, at(1)) ?? '', /in a moment/);
    assert.match(certificateDetail(undefined, { ...free, left: 0 }, at(1)) ?? '', /as many orders as it may/);
    assert.equal(
      certificateDetail(
        {
          ...{ ...facts, notAfter: undefined, error: 'DNS problem', attempts: 2, nextTry: at(2) },
          ...{ code: 'refused', problem: 'dns' },
        },
        free,
        at(1),
      ),
      'The certificate authority says: DNS problem. Tried 2 times; next try at 2026-01-03T00:00:00.000Z, or sooner after a verify.',
    );
    assert.equal(
      certificateDetail(
        {
          ...facts,
          notAfter: undefined,
          error: 'It cannot be reached',
          code: 'unavailable',
          attempts: 1,
          nextTry: at(2),
        },
        free,
        at(1),
      ),
      'It cannot be reached. Tried once; next try at 2026-01-03T00:00:00.000Z.',
    );
    assert.match(
      certificateDetail(undefined, { left: 1, holdUntil: at(2), holdReason: 'too many' }, at(1)) ?? '',
      /takes no more orders of this platform until 2026-01-03T00:00:00.000Z: too many\./,
    );
  });
});
