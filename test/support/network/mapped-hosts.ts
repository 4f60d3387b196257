/** Gateways with mapped hosts on a real database, with a real authority if one is given; their containers are origins of the test. */

import type { KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { Registry } from 'prom-client';
import type { DnsView } from '../../../actors/network/certificate-deps.ts';
import type { RunningGateway } from '../../../cmd/node/gateway.ts';
import { openMappedHosts } from '../../../cmd/node/mapped-hosts.ts';
import { newId } from '../../../proto/ids.ts';
import type { CertificateAuthority } from '../../../proto/ports/acme.ts';
import { EngineError } from '../../../proto/ports/engine.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { type Db, openDb } from '../../../storage/db.ts';
import { deleteMapping, verifiedMapping, verifyMapping } from '../../../storage/network/mappings.ts';
import { parseSealKey } from '../../../storage/seal.ts';
import { start } from '../../../supervision/index.ts';
import { type TestDatabase, testDatabase } from '../database/database.ts';
import { addContainer, runningState } from '../gateway/containers.ts';
import { startGateway } from '../gateway/gateway.ts';
import { silentLog } from '../log.ts';
import { type Cleanup, freePort } from '../temp.ts';

export const CONTAINER = 'abcdefghijk1';
export const SEAL_KEY = parseSealKey('11'.repeat(32));

export interface MappedGateways {
  readonly database: TestDatabase;
  readonly db: Db;
  /** Where an authority asks for challenges: the HTTPS port of the first gateway. */
  readonly httpsPort: number;
  /** A gateway; the first takes `httpsPort`. */
  gateway(authority: CertificateAuthority | undefined, options?: GatewayParts): Promise<TestGateway>;
  /** Another gateway in place of the first, which was stopped. */
  again(authority: CertificateAuthority, options?: GatewayParts): Promise<TestGateway>;
  /** Maps a hostname to a port of the container, verified at once; the mapping's id. */
  map(hostname: string, targetPort?: number): Promise<string>;
  unmap(id: string): Promise<void>;
  detail(hostname: string): Promise<string>;
}

export interface GatewayParts {
  readonly log?: Log;
  readonly leaseMs?: number;
  readonly dns?: DnsView;
  readonly sealKey?: KeyObject;
}

export interface TestGateway {
  readonly ports: RunningGateway['ports'];
  readonly gateway: RunningGateway;
  readonly registry: Registry;
  stop(): Promise<void>;
  dial(hostname: string, options?: ConnectionOptions): Promise<TLSSocket>;
  /** GET over TLS, or plainly; the certificate must be good. */
  get(
    url: string,
    ca?: string,
    headers?: Record<string, string>,
  ): Promise<{ status: number; text: string; location: string | undefined }>;
}

/** Maps a hostname to the container, verified at once; the mapping's id. */
export async function mapHostname(db: Db, hostname: string, targetPort = 8080): Promise<string> {
  const id = newId();
  await db.tx(async (tx) => {
    await tx.run(
      `insert into domain_mappings (id, user_id, domain, container_id, target_port, status, verify_token, pending_since, next_check_at)
       values ($1, $5, $2, $3, $4, 'pending', 'x', now(), now())`,
      // Of many users: each has a daily share of certificates.
      [id, hostname, CONTAINER, targetPort, `uuuuuuuuuuu${hostname.charCodeAt(1) % 10}`],
    );
    await verifyMapping(tx, id, new Date());
  });
  return id;
}

/** A database with a container at 127.0.0.1 whose port 8080 is `origin`. */
export async function openMappedGateways(t: Cleanup, origin: number): Promise<MappedGateways> {
  const database = await testDatabase();
  t.after(() => database.close());
  const { db } = database;
  await addContainer(db, CONTAINER, { ports: [[8080, origin]] });
  const httpsPort = await freePort();
  let isFirst = true;
  const gateways: MappedGateways = {
    database,
    db,
    httpsPort,
    again: (authority, options) => {
      isFirst = true;
      return gateways.gateway(authority, options);
    },
    gateway: async (authority, { log = silentLog, leaseMs, dns, sealKey = SEAL_KEY } = {}) => {
      const https = isFirst ? httpsPort : 0;
      isFirst = false;
      // As a process of its own has it.
      const ownDb = openDb(database.connection, { log: silentLog, name: 'gateway', max: 4 });
      const system = start({ name: 'gateway', log });
      const registry = new Registry();
      const mapped = await openMappedHosts({
        ...{ system, db: ownDb, sealKey, authority, log, registry, dns, lookMs: 200 },
        ...(leaseMs === undefined ? {} : { leaseMs }),
      });
      const state = runningState(CONTAINER);
      const gateway = await startGateway(t, {
        system,
        db: ownDb,
        engine: {
          dial: async () => {
            throw new EngineError('unavailable', 'Nothing is dialled here.');
          },
          list: async () => [state],
          inspect: async () => state,
        },
        log,
        mapped,
        ports: { http: 0, https, ssh: 0 },
        processRegistry: registry,
        installation: 'abcdefghijkl',
      });
      let ending: Promise<void> | undefined;
      const end = () => {
        ending ??= (async () => {
          await gateway.end();
          await mapped.close();
          await ownDb.close();
        })();
        return ending;
      };
      t.after(end);
      const { ports } = gateway;
      return {
        ...{ ports, gateway, registry, stop: end },
        dial: async (servername, options = {}) => {
          const socket = connect({ host: '127.0.0.1', port: ports.https, servername, ...options });
          t.after(() => void socket.destroy());
          await once(socket, 'secureConnect');
          socket.on('error', () => {});
          return socket;
        },
        get: (url, ca, headers) => get(url, ports, ca, headers),
      };
    },
    map: (hostname, targetPort) => mapHostname(db, hostname, targetPort),
    unmap: async (id) => {
      await db.tx((tx) => deleteMapping(tx, id));
    },
    detail: async (hostname) => {
      return (await verifiedMapping(db, hostname))?.certificateDetail ?? '';
    },
  };
  return gateways;
}

function get(
  url: string,
  ports: RunningGateway['ports'],
  ca: string | undefined,
  headers: Record<string, string> = {},
): ReturnType<TestGateway['get']> {
  const { protocol, hostname, pathname } = new URL(url);
  const common = { host: '127.0.0.1', path: pathname, headers: { host: hostname, ...headers }, timeout: 60_000 };
  return new Promise((resolve, reject) => {
    const agent = protocol === 'https:' ? new Agent({ ca, servername: hostname, maxCachedSessions: 0 }) : undefined;
    const outgoing =
      agent === undefined
        ? httpRequest({ ...common, port: ports.http, agent: false })
        : httpsRequest({ ...common, port: ports.https, agent });
    outgoing.on('error', reject).on('response', (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk));
      response.on('end', () => {
        agent?.destroy();
        resolve({ status: response.statusCode ?? 0, text, location: response.headers.location });
      });
    });
    outgoing.end();
  });
}
