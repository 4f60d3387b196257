/** A database with a mapped container, a real authority that validates at its gateways, and the client of that. */
import type { TestContext } from 'node:test';
import type { CertificateAuthority } from '../../../proto/ports/acme.ts';
import { type AcmeOptions, acmeAuthority } from '../../../transports/clients/acme/authority.ts';
import { httpOrigin } from '../gateway/proxy.ts';
import { until } from '../until.ts';
import { type MappedGateways, openMappedGateways } from './mapped-hosts.ts';
import { type Pebble, type PebbleOptions, startPebble } from './pebble.ts';

export interface Issuing {
  readonly gateways: MappedGateways;
  readonly pebble: Pebble;
  /** A client of the authority, or of what stands before it; ended with the test. */
  authority(options?: Partial<AcmeOptions>): CertificateAuthority;
  /** Waits for the certificate of a hostname. */
  issued(hostname: string): Promise<unknown>;
  /** Waits until what the owner of a mapping is told matches; all of it. */
  told(hostname: string, pattern: RegExp): Promise<string>;
}

/** Machines of tests are slow and busy. */
export const PATIENT = { timeoutMs: 120_000 } as const;

/** `origin`: port of the container; without it one says its host. */
export async function openIssuing(
  t: TestContext,
  options: Partial<PebbleOptions> = {},
  origin?: number,
): Promise<Issuing> {
  const telling = () =>
    httpOrigin(t, (incoming, response) => response.end(`the container of ${incoming.headers.host}`));
  const gateways = await openMappedGateways(t, origin ?? (await telling()));
  const pebble = await startPebble(t, { tlsPort: gateways.httpsPort, ...options });
  return {
    gateways,
    pebble,
    authority: (own = {}) => {
      const made = acmeAuthority({
        ...{ directoryUrl: pebble.directoryUrl, ca: pebble.ca },
        ...own,
      });
      t.after(() => made.close());
      return made;
    },
    issued: (hostname) =>
      until(() => gateways.db.run('select from certificates where hostname = $1 and chain is not null', [hostname]), {
        ...PATIENT,
        what: `a certificate for ${hostname}`,
      }),
    told: async (hostname, pattern) => {
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
