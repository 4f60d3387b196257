/** `troupe registry serve`: the registry front, in the pod of a registry of a cluster. */
import { readFileSync } from 'node:fs';
import { Counter, Registry } from 'prom-client';
import { RegistryKeyError } from '../../../../actors/auth/registry/registry-key.ts';
import { errorText } from '../../../../lib/errors.ts';
import type { Log } from '../../../../proto/ports/log.ts';
import { registryHostOf } from '../../../../proto/service-paths.ts';
import { type DbConnection, openDb } from '../../../../storage/db.ts';
import { listenPlain } from '../../../../transports/gateway/plain-listener.ts';
import { CliError } from '../../../config/cli-error.ts';
import { DEFAULT_DOMAIN, type Environment, readEnvironment } from '../../../config/config.ts';
import { addressIn } from '../../../config/listen-address.ts';
import { nodeMetrics } from '../../../observability/node-metrics.ts';
import { type LogServiceOptions, openShippedLog } from '../../../observability/shipped-log.ts';
import { givenDatabase, refuseWithoutRights } from '../../database.ts';
import { stopSignal, Teardown } from '../../shutdown.ts';
import { chooseWires } from '../../wires.ts';
import { type RegistryBucket, registryBucket } from '../files.ts';
import { holdersOver } from '../holders.ts';
import { pinnedImages } from '../pinned.ts';
import { bundledKeys, type TokenKeys } from '../token-keys.ts';
import { openFront } from './front.ts';

/** Options as the command line gives them. */
export interface RegistryServeOptions extends LogServiceOptions {
  readonly addr: string;
  readonly registry: string;
  readonly certificate: string;
  readonly store?: string;
  readonly domain?: string;
  readonly json?: boolean;
}

/** How long pushes and pulls under way may take at the end, ms. */
const DRAIN_MS = 25_000;

/** Runs it until the process is told to stop. Throws CliError for what is missing. */
export async function serveRegistry(options: RegistryServeOptions): Promise<void> {
  const environment = readEnvironment(process.env);
  const connection = givenDatabase(environment);
  if (connection === undefined) {
    throw new CliError(
      'The registry front needs DATABASE_URL: it asks there for who pushes, and for images that may not go. Give it ' +
        'a role of its own (docs/reference/database-roles.md).',
    );
  }
  const listenAt = addressIn('--addr', options.addr);
  const address = addressIn('--registry', options.registry);
  const keys = keysOfFile(options.certificate);
  const host = registryHostOf(options.domain ?? environment.PLATFORM_DOMAIN ?? DEFAULT_DOMAIN);
  const shipped = await openShippedLog(environment.LOG_LEVEL ?? 'info', options, 'registry');
  const { log } = shipped;
  await chooseWires(environment, log);
  const told = stopSignal(environment.LEAVE_DELAY);
  const teardown = new Teardown(log);
  try {
    const { metrics, onAccess } = numbers();
    shipped.metrics(metrics);
    const { holds, limitMb, close } = holdersOver(connection, log);
    teardown.add('database', close);
    const pinned = () => pinnedImages(connection, environment, log);
    // Empty where a manifest has no folder.
    const store = options.store || undefined;
    const bucket = store === undefined ? bucketWithKeys(environment) : undefined;
    const front = openFront({ bucket, environment, host, address, keys, store, pinned, holds, limitMb, metrics, log });
    teardown.add('what watches over writes', () => front.close());
    const listener = await listenPlain({ ...listenAt, decider: front, isTrusted: () => true, onAccess }).catch(
      (cause: unknown) => {
        throw new CliError(`Cannot listen on ${options.addr}: ${errorText(cause)}.`, { cause });
      },
    );
    teardown.add('listener', () => listener.close(0));
    void lookAtDatabase(connection, log);
    if (store === undefined && bucket === undefined)
      log.info({}, 'the images are in a bucket without its keys here: there is no limit of a user and no collection');
    process.stdout.write(
      options.json
        ? `${JSON.stringify({ ready: true, port: listener.port, host })}\n`
        : `The registry front of ${host} listens on ${listenAt.host}, port ${listener.port}.\n`,
    );
    log.info({ port: listener.port, host, store }, 'serving');
    await told.signalled;
    front.drain();
    await told.promise;
    log.info({}, 'stopping');
    // Longer than a part of the end may take.
    await listener.close(DRAIN_MS);
  } finally {
    await teardown.run();
    await shipped.close();
    told.forget();
  }
}

/** Undefined where Distribution has the keys of the bucket by other means. */
function bucketWithKeys(environment: Environment): RegistryBucket | undefined {
  const { REGISTRY_S3_ACCESS_KEY: accessKey, REGISTRY_S3_SECRET_KEY: secretKey } = environment;
  return accessKey === undefined && secretKey === undefined ? undefined : registryBucket(environment);
}

/** The keys of the certificates in a file. Throws CliError. */
function keysOfFile(path: string): TokenKeys {
  try {
    return bundledKeys(readFileSync(path, 'utf8'));
  } catch (cause) {
    const why = cause instanceof RegistryKeyError ? `it ${cause.message}` : errorText(cause);
    throw new CliError(
      `--certificate is ${path}, which cannot be used: ${why}. It is the file that the registry has as rootcertbundle.`,
      { cause },
    );
  }
}

function numbers() {
  const metrics = new Registry();
  nodeMetrics(metrics);
  const replies = new Counter({
    name: 'troupe_registry_replies_total',
    help: 'Replies by status',
    labelNames: ['status'],
    registers: [metrics],
  });
  const onAccess = ({ status }: { readonly status: number }) => replies.inc({ status: String(status) });
  return { metrics, onAccess };
}

/** Says what will be wrong with pushes. Pulls need no database, so the process serves without it. */
async function lookAtDatabase(connection: DbConnection, log: Log): Promise<void> {
  const db = openDb(connection, { log, name: 'registry', max: 1 });
  try {
    await refuseWithoutRights(db, 'registry');
  } catch (error) {
    log.warn({ err: error }, 'the database does not tell who pushes: pushes are refused until it does');
  } finally {
    await db.close();
  }
}
