import { homedir } from 'node:os';
import { isAbsolute } from 'node:path';
import { EngineError } from '../../../../proto/ports/engine.ts';

/** A Docker Engine behind SSH. */
export interface SshTarget {
  readonly host: string;
  readonly user?: string;
  readonly port?: number;
  /** The engine's socket on that machine. */
  readonly socket: string;
  /** An ssh_config(5) in place of the user's own. */
  readonly config?: string;
  /** Socket of the agent that holds keys. */
  readonly agent?: string;
}

/** Where a Docker Engine listens. `certs`: folder with ca.pem, cert.pem and key.pem, as Docker's own client has it. */
export type DockerTarget =
  | { readonly socketPath: string }
  | { readonly host: string; readonly port: number; readonly certs?: string }
  | { readonly ssh: SshTarget };

/** What of the environment says how Docker is reached; the first three as Docker's own tools name them. */
export interface DockerVariables {
  readonly DOCKER_HOST?: string | undefined;
  readonly DOCKER_TLS_VERIFY?: string | undefined;
  readonly DOCKER_CERT_PATH?: string | undefined;
  readonly DOCKER_SSH_CONFIG?: string | undefined;
  readonly SSH_AUTH_SOCK?: string | undefined;
}

const PLAIN_TCP =
  'tcp:// without TLS is for this machine only: whoever reaches it is root there. Set DOCKER_TLS_VERIFY=1 and ' +
  'DOCKER_CERT_PATH, or use ssh://user@host';
const EXPECTED = 'expected unix:///path, tcp://host:port or ssh://user@host';

/**
 * One address that says all of it: DOCKER_HOST, and with TLS `tls://host:port?certs=FOLDER`. Undefined without
 * DOCKER_HOST. Throws EngineError `refused` for what cannot be, or must not be: plain TCP to another machine.
 */
export function dockerAddress(env: DockerVariables): string | undefined {
  const { DOCKER_HOST: host, DOCKER_TLS_VERIFY, DOCKER_CERT_PATH, DOCKER_SSH_CONFIG, SSH_AUTH_SOCK } = env;
  if (host === undefined || host === '') return undefined;
  const withTls = Boolean(DOCKER_TLS_VERIFY) && host.startsWith('tcp://');
  const certs = DOCKER_CERT_PATH || `${homedir()}/.docker`;
  const address = withTls
    ? `${host.replace(/^tcp:/, 'tls:').replace(/\/$/, '')}?${new URLSearchParams({ certs })}`
    : host;
  const more = new URLSearchParams({
    ...(DOCKER_SSH_CONFIG ? { config: DOCKER_SSH_CONFIG } : {}),
    ...(SSH_AUTH_SOCK ? { agent: SSH_AUTH_SOCK } : {}),
  }).toString();
  const whole = host.startsWith('ssh://') && more !== '' ? `${address}?${more}` : address;
  parseDockerHost(whole);
  return whole;
}

/** Reads an address as `dockerAddress` makes it. Throws EngineError `refused` for anything else. */
export function parseDockerHost(address: string): DockerTarget {
  if (address.startsWith('unix://')) {
    const socketPath = address.slice('unix://'.length);
    if (socketPath.startsWith('/') && !socketPath.includes('\0')) return { socketPath };
  }
  const scheme = /^(tcp|tls|ssh):/.exec(address)?.[1];
  const text = address.replace(/^[a-z]+:/, 'http:');
  if (scheme === undefined || !URL.canParse(text) || !/^[a-z]+:\/\//.test(address)) throw unusable(address);
  const url = new URL(text);
  const host = url.hostname.replace(/^\[|\]$/g, '');
  // The URL parser takes 80 for the default.
  const port = url.port === '' ? (/:80(?:[/?]|$)/.test(address) ? 80 : undefined) : Number(url.port);
  if (host === '' || host.startsWith('-') || url.password !== '' || url.hash !== '') throw unusable(address);
  if (scheme === 'ssh') return { ssh: sshTarget(address, url, host, port) };
  if (url.username !== '' || url.pathname !== '/') throw unusable(address);
  const certs = url.searchParams.get('certs');
  if (scheme === 'tls' && certs !== null && isAbsolute(certs)) return { host, port: port ?? 2376, certs };
  if (scheme === 'tls' || url.search !== '') throw unusable(address);
  if (!isLoopback(host)) throw new EngineError('refused', `Cannot use the Docker host "${address}": ${PLAIN_TCP}.`);
  return { host, port: port ?? 2375 };
}

function sshTarget(address: string, url: URL, host: string, port: number | undefined): SshTarget {
  const user = decodeURIComponent(url.username);
  const [config, agent] = [url.searchParams.get('config'), url.searchParams.get('agent')];
  if (!/^[A-Za-z0-9._][A-Za-z0-9._@-]*$|^$/.test(user) || /[\s:,]/.test(decodeURIComponent(url.pathname)))
    throw unusable(address);
  return {
    host,
    ...(user === '' ? {} : { user }),
    ...(port === undefined ? {} : { port }),
    socket: url.pathname === '/' ? '/var/run/docker.sock' : decodeURIComponent(url.pathname),
    ...(config === null ? {} : { config }),
    ...(agent === null ? {} : { agent }),
  };
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host);
}

function unusable(address: string): EngineError {
  return new EngineError('refused', `Cannot use the Docker host "${address}": ${EXPECTED}.`);
}

/** What is wrong with the variables, without their values; undefined when nothing is. */
export function dockerProblem(env: DockerVariables): string | undefined {
  try {
    dockerAddress(env);
    return undefined;
  } catch (error) {
    return error instanceof EngineError && error.message.includes(PLAIN_TCP) ? PLAIN_TCP : EXPECTED;
  }
}
