/** A database with a mapped container, a real authority that validates at its gateways, and the client of that. */
import type { TestContext } from 'node:test';
import type { CertificateAuthority } from '../../../proto/ports/acme.ts';
import { type AcmeOptions, acmeAuthority } from '../../../transports/clients/acme/authority.ts';
import { httpOrigin } from '../gateway/proxy.ts';
import { until } from '../until.ts';
import { openMappedGateways } from './mapped-hosts.ts';
import { type PebbleOptions, startPebble } from './pebble.ts';

/** Machines of tests are slow and busy. */
export const PATIENT = { timeoutMs: 120_000 } as const;

/** `origin`: port of the container; without it one says its host. */
export async function openIssuing(t: TestContext, options: Partial<PebbleOptions> = {}, origin?: number) {
  const telling = () =>
    httpOrigin(t, (incoming, response) => response.end(`the container of ${incoming.headers.host}`));
  const gateways = await openMappedGateways(t, origin ?? (await telling()));
  const pebble = await startPebble(t, { tlsPort: gateways.httpsPort, ...options });
  return {
    gateways,
    pebble,
    /** A client of the authority, or of what stands before it; ended with the test. */
    authority: (own: Partial<AcmeOptions> = {}): CertificateAuthority => {
      const made = acmeAuthority({ directoryUrl: pebble.directoryUrl, ca: pebble.ca, ...own });
      t.after(() => made.close());
      return made;
    },
    /** Waits for the certificate of a hostname. */
    issued: (hostname: string) =>
      until(() => gateways.db.run('select from certificates where hostname = $1 and chain is not null', [hostname]), {
        ...PATIENT,
        what: `a certificate for ${hostname}`,
      }),
    /** Waits until what the owner of a mapping is told matches; all of it. */
    told: async (hostname: string, pattern: RegExp) => {
      let detail = '';
      const isTold = async () => {
        detail = await gateways.detail(hostname);
        return pattern.test(detail);
      };
      await until(isTold, { ...PATIENT, what: `${pattern} in what is told of ${hostname}` }).catch((cause: unknown) => {
        throw new Error(`last told of ${hostname}: ${detail}`, { cause });
      });
      return detail;
    },
  };
}
