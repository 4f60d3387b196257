/** Gateways with mapped hosts on a real database, with a real authority if one is given; their containers are origins of the test. */

import type { KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import { type ConnectionOptions, connect } from 'node:tls';
import { Registry } from 'prom-client';
import type { DnsView } from '../../../actors/network/certificate-deps.ts';
import type { RunningGateway } from '../../../cmd/node/gateway.ts';
import { openMappedHosts } from '../../../cmd/node/mapped-hosts.ts';
import { newId } from '../../../proto/ids.ts';
import type { CertificateAuthority } from '../../../proto/ports/acme.ts';
import { EngineError } from '../../../proto/ports/engine.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { type Db, openDb } from '../../../storage/db.ts';
import { deleteMapping, verifyMapping } from '../../../storage/network/mappings.ts';
import { parseSealKey } from '../../../storage/seal.ts';
import { start } from '../../../supervision/index.ts';
import { testDatabase } from '../database/database.ts';
import { addContainer, runningState } from '../gateway/containers.ts';
import { startGateway } from '../gateway/gateway.ts';
import { silentLog } from '../log.ts';
import { SHORT_LEASES, startNode } from '../service/node.ts';
import { type Cleanup, freePort } from '../temp.ts';
import { verifiedMapping } from './verified-mapping.ts';

export const CONTAINER = 'abcdefghijk1';
export const SEAL_KEY = parseSealKey('11'.repeat(32));

export interface GatewayParts {
  readonly log?: Log;
  readonly leaseMs?: number;
  readonly dns?: DnsView;
  readonly sealKey?: KeyObject;
  /** A broker, as `host:port`: the gateway is a node of a cluster then. */
  readonly nats?: string;
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

/** A database with a container at 127.0.0.1 whose port 8080 is `origin`, and gateways on it. */
export async function openMappedGateways(t: Cleanup, origin: number) {
  const database = await testDatabase();
  t.after(() => database.close());
  const { db } = database;
  await addContainer(db, CONTAINER, { ports: [[8080, origin]] });
  /** Where an authority asks for challenges: the HTTPS port of the first gateway. */
  const httpsPort = await freePort();
  let isFirst = true;
  /** Opens a gateway; the first takes `httpsPort`. */
  const open = async (authority: CertificateAuthority | undefined, options: GatewayParts = {}) => {
    const { log = silentLog, leaseMs, dns, sealKey = SEAL_KEY, nats } = options;
    const https = isFirst ? httpsPort : 0;
    isFirst = false;
    // As a process of its own has it.
    const ownDb = openDb(database.connection, { log: silentLog, name: 'gateway', max: 4 });
    const member = nats === undefined ? undefined : { database, nats, roles: ['certificates'], timings: SHORT_LEASES };
    const node = member && (await startNode(t, member));
    const { system, placement } = node ?? {
      system: start({ name: 'gateway', log, freezeMessages: true }),
      placement: undefined,
    };
    const registry = new Registry();
    const mapped = await openMappedHosts({
      ...{ system, db: ownDb, placement, sealKey, authority, log, registry, dns, lookMs: 200 },
      ...(leaseMs === undefined ? {} : { leaseMs }),
    });
    await node?.join();
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
        await node?.end();
        await gateway.end();
        await mapped.close();
        await ownDb.close();
      })();
      return ending;
    };
    t.after(end);
    const { ports } = gateway;
    return {
      ...{ ports, gateway, registry, node, stop: end },
      dial: async (servername: string, more: ConnectionOptions = {}) => {
        const socket = connect({ host: '127.0.0.1', port: ports.https, servername, ...more });
        t.after(() => void socket.destroy());
        await once(socket, 'secureConnect');
        socket.on('error', () => {});
        return socket;
      },
      /** GET over TLS, or plainly; the certificate must be good. */
      get: (url: string, ca?: string, headers?: Record<string, string>) => get(url, ports, ca, headers),
    };
  };
  return {
    database,
    db,
    httpsPort,
    gateway: open,
    /** Another gateway in place of the first, which was stopped. */
    again: (authority: CertificateAuthority, options?: GatewayParts) => {
      isFirst = true;
      return open(authority, options);
    },
    /** Maps a hostname to a port of the container, verified at once; the mapping's id. */
    map: (hostname: string, targetPort?: number) => mapHostname(db, hostname, targetPort),
    unmap: async (id: string) => void (await db.tx((tx) => deleteMapping(tx, id))),
    detail: async (hostname: string) => (await verifiedMapping(db, hostname))?.certificateDetail ?? '',
  };
}

function get(
  url: string,
  ports: RunningGateway['ports'],
  ca: string | undefined,
  headers: Record<string, string> = {},
): Promise<{ status: number; text: string; location: string | undefined }> {
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
