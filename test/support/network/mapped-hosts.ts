/** Gateways with mapped hosts on a real database, with a real authority if one is given; their containers are origins of the test. */

import type { KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { Registry } from 'prom-client';
import type { DnsView } from '../../../actors/network/certificate-deps.ts';
import { openGateway, type RunningGateway } from '../../../cmd/node/gateway.ts';
import { openMappedHosts } from '../../../cmd/node/mapped-hosts.ts';
import { newId } from '../../../proto/ids.ts';
import type { CertificateAuthority } from '../../../proto/ports/acme.ts';
import { EngineError } from '../../../proto/ports/engine.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { type Db, openDb } from '../../../storage/db.ts';
import { deleteMapping, verifiedMapping, verifyMapping } from '../../../storage/network/mappings.ts';
import { parseSealKey } from '../../../storage/seal.ts';
import { start, stop, stopped } from '../../../supervision/index.ts';
import { certificateContext } from '../../../transports/gateway/tls/front.ts';
import { generateKeyPair } from '../../../transports/ssh/keys.ts';
import { type TestDatabase, testDatabase } from '../database/database.ts';
import { certificates } from '../gateway/listeners.ts';
import { silentLog } from '../log.ts';
import { type Cleanup, freePort } from '../temp.ts';

export const CONTAINER = 'abcdefghijk1';
export const SEAL_KEY = parseSealKey('11'.repeat(32));

export interface House {
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

/** A user with a container, whose port 8080 leads to `origin` if that is given. */
export async function addContainer(db: Db, origin: number | undefined): Promise<void> {
  await db.run(
    `insert into users (id, username, display_name, password_hash) values ('uuuuuuuuuuu1', 'somebody', 'Somebody', 'x')`,
  );
  await db.run(
    `insert into containers (id, user_id, slot, name, instance_type, memory_mb, storage_gb, pull_policy, mount_paths, ssh_enabled, desired, status)
     values ($1, 'uuuuuuuuuuu1', 1, $1, 'nano', 512, 5, 'IfNotPresent', '{/root}', false, 'running', 'running')`,
    [CONTAINER],
  );
  if (origin === undefined) return;
  await db.run('insert into ingress_rules (container_id, port, target_port) values ($1, 8080, $2)', [
    ...[CONTAINER, origin],
  ]);
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
export async function openHouse(t: Cleanup, origin: number): Promise<House> {
  const database = await testDatabase();
  t.after(() => database.close());
  const { db } = database;
  await addContainer(db, origin);
  const httpsPort = await freePort();
  const { own } = await certificates();
  const { privateKey: sshKey } = generateKeyPair('test');
  let isFirst = true;
  const house: House = {
    database,
    db,
    httpsPort,
    again: (authority, options) => {
      isFirst = true;
      return house.gateway(authority, options);
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
      const state = {
        ...{ id: CONTAINER, phase: 'running' as const, address: '127.0.0.1' },
        ...{ exitCode: null, oomKilled: false, restarts: 0, startedAt: 1 },
      };
      const engine = {
        dial: async () => {
          throw new EngineError('unavailable', 'Nothing is dialled here.');
        },
        list: async () => [state],
        inspect: async () => state,
      };
      const gateway = await openGateway({
        gatewayToken: () => '',
        ...{ system, db: ownDb, engine, log, domain: 'cloud.test', host: '127.0.0.1', mapped },
        ports: { http: 0, https, ssh: 0 },
        certificate: { context: certificateContext(own) },
        ...{
          fileRoutes: [],
          fallback: undefined,
          accessLog: undefined,
          proxies: undefined,
          busProblem: () => undefined,
        },
        sshKeys: { host: [sshKey], platform: sshKey },
        ...{ isCaching: false, processRegistry: registry, installation: 'abcdefghijkl' },
      });
      let ending: Promise<void> | undefined;
      const end = () => {
        ending ??= (async () => {
          await gateway.stop(0);
          stop(system);
          await stopped(system);
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
  return house;
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
