/** A real image registry (Debian's docker-registry) that takes the platform's tokens, and the clients that use it. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { findProgram } from '../require.ts';
import { type Cleanup, tempDir } from '../temp.ts';
import { until } from '../until.ts';

/** What its `auth.token` section says. */
export interface RegistryOptions {
  /** A free port of 127.0.0.1; the registry cannot take 0 and tell. */
  readonly port: number;
  /** The token endpoint. */
  readonly realm: string;
  readonly service: string;
  readonly issuer: string;
  /** PEM certificates whose tokens it takes. */
  readonly bundle: string;
}

/** A registry that runs as a child process. */
export interface RunningRegistry {
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  /** `127.0.0.1:<port>`, as images name it. */
  readonly host: string;
}

/** Starts a registry with an empty store, ended with `t`. With a port alone it is open to all. Throws with its log when it does not come up. */
export async function startRegistry(
  t: Cleanup,
  options: RegistryOptions | { readonly port: number },
): Promise<RunningRegistry> {
  const folder = await tempDir(t);
  if ('bundle' in options) await writeFile(join(folder, 'bundle.pem'), options.bundle);
  await writeFile(join(folder, 'config.yml'), configuration(folder, options));
  const child = spawn(findProgram('docker-registry') ?? 'docker-registry', ['serve', join(folder, 'config.yml')], {
    // OpenTelemetry's and the registry's own variables would change it.
    env: { PATH: process.env.PATH },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  for (const output of [child.stdout, child.stderr]) output.on('data', (chunk: Buffer) => (log += chunk));
  t.after(() => end(child));
  const host = `127.0.0.1:${options.port}`;
  const answers = async () => {
    if (child.exitCode !== null) throw new Error(`docker-registry ended before it served:\n${log}`);
    return fetch(`http://${host}/v2/`).then(
      ({ status }) => status === 401 || status === 200,
      () => false,
    );
  };
  await until(answers, { what: 'docker-registry serves', everyMs: 50 });
  return { url: `http://${host}`, host };
}

/** The lines that docs/reference/registry.md shows, with deletion allowed. */
function configuration(folder: string, options: RegistryOptions | { readonly port: number }): string {
  const open = `version: 0.1
log:
  level: warn
  accesslog:
    disabled: true
storage:
  filesystem:
    rootdirectory: ${JSON.stringify(join(folder, 'store'))}
  delete:
    enabled: true
http:
  addr: 127.0.0.1:${options.port}
`;
  if (!('realm' in options)) return open;
  const { realm, service, issuer } = options;
  return `${open}auth:
  token:
    realm: ${JSON.stringify(realm)}
    service: ${JSON.stringify(service)}
    issuer: ${JSON.stringify(issuer)}
    rootcertbundle: ${JSON.stringify(join(folder, 'bundle.pem'))}
`;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  await once(child, 'exit');
}

export interface Ran {
  readonly code: number;
  /** Both outputs. */
  readonly output: string;
}

/** Runs a client to its end; `input` goes to its standard input. */
export function client(program: string, args: readonly string[], input = ''): Promise<Ran> {
  return new Promise((resolve) => {
    const child = execFile(
      findProgram(program) ?? program,
      [...args],
      { timeout: 60_000, maxBuffer: 16 * 1024 * 1024 },
      (error, stdout, stderr) =>
        resolve({
          code: error === null ? 0 : typeof error.code === 'number' ? error.code : -1,
          output: stdout + stderr,
        }),
    );
    // It may end without having read it.
    child.stdin?.on('error', () => {});
    child.stdin?.end(input);
  });
}

/** The Docker command line against the tests' Docker Engine, with what it remembers in a folder of its own. */
export class DockerCli {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  run(args: readonly string[], input?: string): Promise<Ran> {
    return client('docker', ['--config', this.#folder, '--host', process.env.DOCKER_HOST ?? '', ...args], input);
  }

  login(host: string, username: string, password: string): Promise<Ran> {
    return this.run(['login', '--username', username, '--password-stdin', host], password);
  }
}

/** skopeo, with what it remembers in a file of its own. */
export class Skopeo {
  readonly #authFile: string;

  constructor(authFile: string) {
    this.#authFile = authFile;
  }

  login(host: string, username: string, password: string): Promise<Ran> {
    const args = ['login', '--authfile', this.#authFile, '--tls-verify=false', '--username', username];
    return client('skopeo', [...args, '--password-stdin', host], password);
  }

  /** Copies between two image names of skopeo's; `--src-...` and `--dest-...` flags may be given. */
  copy(from: string, to: string, flags: readonly string[] = []): Promise<Ran> {
    const tls = [from, to].flatMap((name, i) => (name.startsWith('docker://') ? [TLS_FLAGS[i] ?? ''] : []));
    return client('skopeo', ['--insecure-policy', 'copy', '--authfile', this.#authFile, ...tls, ...flags, from, to]);
  }

  delete(name: string): Promise<Ran> {
    return client('skopeo', ['delete', '--authfile', this.#authFile, '--tls-verify=false', name]);
  }

  inspect(name: string): Promise<Ran> {
    return client('skopeo', ['inspect', '--authfile', this.#authFile, '--tls-verify=false', '--raw', name]);
  }
}

const TLS_FLAGS = ['--src-tls-verify=false', '--dest-tls-verify=false'];
