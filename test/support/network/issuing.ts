/** A database with a mapped container, a real authority that validates at its gateways, and the client of that. */
import type { TestContext } from 'node:test';
import type { CertificateAuthority } from '../../../proto/ports/acme.ts';
import { type AcmeOptions, acmeAuthority } from '../../../transports/clients/acme/authority.ts';
import { httpOrigin } from '../gateway/proxy.ts';
import { until } from '../until.ts';
import { type House, openHouse } from './mapped-hosts.ts';
import { type Pebble, type PebbleOptions, startPebble } from './pebble.ts';

export interface IssuingWorld {
  readonly house: House;
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
export async function issuingWorld(
  t: TestContext,
  options: Partial<PebbleOptions> = {},
  origin?: number,
): Promise<IssuingWorld> {
  const telling = () =>
    httpOrigin(t, (incoming, response) => response.end(`the container of ${incoming.headers.host}`));
  const house = await openHouse(t, origin ?? (await telling()));
  const pebble = await startPebble(t, { tlsPort: house.httpsPort, ...options });
  return {
    house,
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
      until(() => house.db.run('select from certificates where hostname = $1 and chain is not null', [hostname]), {
        ...PATIENT,
        what: `a certificate for ${hostname}`,
      }),
    told: async (hostname, pattern) => {
      let detail = '';
      const isTold = async () => {
        detail = await house.detail(hostname);
        return pattern.test(detail);
      };
      await until(isTold, { ...PATIENT, what: `${pattern} in what is told of ${hostname}` }).catch((cause: unknown) => {
        throw new Error(`last told of ${hostname}: ${detail}`, { cause });
      });
      return detail;
    },
  };
}
