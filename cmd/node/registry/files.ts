/** The files of the registry that comes along: where they are, its key, and its configuration. */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import {
  certificateBundle,
  newRegistryKey,
  parseRegistryKey,
  type RegistryKey,
  RegistryKeyError,
} from '../../../actors/auth/registry/registry-key.ts';
import { isCode } from '../../../lib/errors.ts';
import { CliError } from '../../config/cli-error.ts';
import type { Environment } from '../../config/config.ts';

/** Where they are. */
export interface RegistryFiles {
  readonly folder: string;
  readonly key: string;
  readonly certificate: string;
  readonly config: string;
  readonly store: string;
  readonly log: string;
  readonly pid: string;
}

/** Where the images alone are. */
export type StoreFiles = Pick<RegistryFiles, 'store'>;

/** Those of a data folder; nothing is made. */
export function registryFiles(dataDir: string): RegistryFiles {
  const folder = join(resolve(dataDir), 'registry');
  return {
    folder,
    key: join(folder, 'signing-key.pem'),
    certificate: join(folder, 'certificate.pem'),
    config: join(folder, 'config.yml'),
    store: join(folder, 'store'),
    log: join(folder, 'registry.log'),
    pid: join(folder, 'registry.pid'),
  };
}

/** The key that signs its tokens, made at the first start. Throws CliError for one that cannot be read. */
export async function registryKeyOf(
  files: RegistryFiles,
): Promise<{ readonly key: RegistryKey; readonly secret: string }> {
  mkdirSync(files.folder, { recursive: true, mode: 0o700 });
  let pem = readText(files.key);
  if (pem === undefined) {
    pem = await newRegistryKey();
    writeWhole(files.key, pem);
  }
  try {
    const key = parseRegistryKey(pem);
    return { key, secret: createHash('sha256').update(`registry uploads ${pem}`).digest('hex') };
  } catch (cause) {
    if (!(cause instanceof RegistryKeyError)) throw cause;
    throw new CliError(`${files.key} ${cause.message}: restore it from your backup, or delete it.`, { cause });
  }
}

/** What its configuration is made of. */
interface RegistryConfig {
  readonly port: number;
  /** As images name it. */
  readonly host: string;
  readonly issuer: string;
  /** Joins the parts of an upload over a restart. */
  readonly secret: string;
  /** Where the images are; undefined: in the folder. */
  readonly bucket?: RegistryBucket | undefined;
}

/** A bucket of S3, or of what speaks as it does. */
export interface RegistryBucket {
  readonly name: string;
  readonly region: string;
  /** Undefined: Amazon's. */
  readonly endpoint: string | undefined;
  readonly accessKey: string;
  readonly secretKey: string;
}

/** The one that the operator names. Throws CliError when the name comes without its keys, or they without it. */
export function registryBucket(environment: Environment): RegistryBucket | undefined {
  const { REGISTRY_S3_BUCKET: name, REGISTRY_S3_REGION: region, REGISTRY_S3_ENDPOINT: endpoint } = environment;
  const { REGISTRY_S3_ACCESS_KEY: accessKey, REGISTRY_S3_SECRET_KEY: secretKey } = environment;
  if (name === undefined && endpoint === undefined && accessKey === undefined && secretKey === undefined)
    return undefined;
  if (name === undefined || accessKey === undefined || secretKey === undefined) {
    throw new CliError(
      'REGISTRY_S3_BUCKET, REGISTRY_S3_ACCESS_KEY and REGISTRY_S3_SECRET_KEY go together: set all three, or none to ' +
        'keep images in the data folder.',
    );
  }
  return { name, region, endpoint, accessKey, secretKey };
}

/**
 * Writes the configuration and the certificates of `key`. Returns whether one of them changed: a registry that runs
 * has to be started anew then.
 */
export function writeRegistryFiles(files: RegistryFiles, key: RegistryKey, config: RegistryConfig): boolean {
  const wanted = [
    [files.certificate, certificateBundle(key)],
    [files.config, configuration(files, config)],
  ] as const;
  const changed = wanted.filter(([path, text]) => readText(path) !== text);
  for (const [path, text] of changed) writeWhole(path, text);
  return changed.length > 0;
}

/** The port in the configuration that is there; undefined without one. */
export function writtenPort(files: RegistryFiles): number | undefined {
  const found = /^ {2}addr: 127\.0\.0\.1:(\d{1,5})$/m.exec(readText(files.config) ?? '');
  return found === null ? undefined : Number(found[1]);
}

/**
 * For Distribution 2.8. A client is sent to the path `/auth/token` of the host that it asked, so the token endpoint is
 * where the client is (`autoredirect`). Without `storage.cache` nothing of a blob is kept in memory: what is deleted is
 * gone at once.
 */
function configuration(files: RegistryFiles, { port, host, issuer, secret, bucket }: RegistryConfig): string {
  return `# Written by Troupe at each start.
version: 0.1
log:
  level: error
  accesslog:
    disabled: true
storage:
${bucket === undefined ? inFolder(files) : inBucket(bucket)}  delete:
    enabled: true
http:
  addr: 127.0.0.1:${port}
  relativeurls: true
  draintimeout: 5s
  secret: ${secret}
  headers:
    X-Content-Type-Options: [nosniff]
auth:
  token:
    autoredirect: true
    realm: ${JSON.stringify(`https://${host}/auth/token`)}
    service: ${JSON.stringify(host)}
    issuer: ${JSON.stringify(issuer)}
    rootcertbundle: ${JSON.stringify(files.certificate)}
`;
}

/** Unfinished uploads are removed with the rest (collect.ts): Distribution would end those that are slow. */
const NO_PURGING = `  maintenance:
    uploadpurging:
      enabled: false
`;

function inFolder(files: RegistryFiles): string {
  return `  filesystem:
    rootdirectory: ${JSON.stringify(files.store)}
${NO_PURGING}`;
}

/** Clients need not reach the bucket: all comes through the gateway. */
function inBucket({ name, region, endpoint, accessKey, secretKey }: RegistryBucket): string {
  const at = endpoint === undefined ? '' : `    regionendpoint: ${JSON.stringify(endpoint)}\n`;
  return `  s3:
    bucket: ${JSON.stringify(name)}
    region: ${JSON.stringify(region)}
${at}    accesskey: ${JSON.stringify(accessKey)}
    secretkey: ${JSON.stringify(secretKey)}
  redirect:
    disable: true
${NO_PURGING}`;
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (isCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

function writeWhole(path: string, text: string): void {
  writeFileSync(`${path}.new`, text, { mode: 0o600, flush: true });
  renameSync(`${path}.new`, path);
}
