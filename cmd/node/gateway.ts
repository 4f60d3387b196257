/** Joins the gateway's control (actors/gateway), which decides, and its listeners (transports/gateway), which ask. */
import { Registry } from 'prom-client';
import { verifyPassword } from '../../actors/auth/login/passwords.ts';
import { GatewayControl } from '../../actors/gateway/service.ts';
import type { SharedSecret } from '../../proto/auth/shared-secret.ts';
import { gatewayTokenSigner } from '../../proto/gateway/gateway-token.ts';
import { AccessProofs } from '../../proto/gateway/port-guard.ts';
import type { NewRoute, StaticRoute } from '../../proto/gateway/routes.ts';
import type { WriteBarrier } from '../../proto/gateway/write-barrier.ts';
import type { MappingSource } from '../../proto/ports/acme.ts';
import type { SharedClock } from '../../proto/ports/clock.ts';
import type { Engine } from '../../proto/ports/engine.ts';
import type { Log } from '../../proto/ports/log.ts';
import { computeNews } from '../../storage/compute/news.ts';
import type { Db } from '../../storage/db.ts';
import type { SystemRef } from '../../supervision/index.ts';
import { ResponseCache } from '../../transports/gateway/cache/response-cache.ts';
import { type FrontProxies, GatewayListeners } from '../../transports/gateway/listeners.ts';
import { SshGateway } from '../../transports/gateway/ssh/gateway.ts';
import type { LiveCertificate } from '../../transports/gateway/tls/live-certificate.ts';
import type { MappedCertificates } from '../../transports/gateway/tls/mapped-certificates.ts';
import {
  CertificateError,
  givenCertificate,
  localCertificate,
  type PlatformCertificate,
} from '../../transports/gateway/tls/platform-certificate.ts';
import { CliError } from '../config/cli-error.ts';
import type { Environment } from '../config/config.ts';
import { type GatewayFlags, strictTransportOf } from '../config/gateway-options.ts';
import { consoleFolder } from '../config/program.ts';
import { accessLine } from '../observability/access-log.ts';
import { gatewayMetrics } from '../observability/gateway-metrics.ts';
import { PlatformAccounts } from './accounts.ts';
import { readConsole } from './console-files.ts';
import { copyListener } from './listener-copies.ts';
import { CLOCK } from './runtime.ts';

/** A port for each of its listeners. */
export interface GatewayPorts {
  readonly http: number;
  readonly https: number;
  readonly ssh: number;
}

/** What the gateway is built from. */
interface GatewayOptions {
  readonly system: SystemRef;
  readonly db: Db;
  readonly engine: Pick<Engine, 'list' | 'inspect' | 'dial'>;
  readonly log: Log;
  readonly domain: string;
  readonly containersDomain: string;
  readonly host: string;
  readonly ports: GatewayPorts;
  readonly certificate: Pick<LiveCertificate, 'context' | 'authorityFile'>;
  /** Private keys of the SSH server, and the platform's, which opens containers; undefined: there is no SSH here. */
  readonly sshKeys: { readonly host: readonly string[]; readonly platform: string } | undefined;
  readonly fileRoutes: readonly StaticRoute[];
  /** Routes to the services of this process, which it prefers to another's. */
  readonly ownRoutes?: readonly NewRoute[] | undefined;
  readonly fallback: { readonly host: string; readonly port: number } | undefined;
  /** Where access log lines go; undefined: nowhere. */
  readonly accessLog: ((line: string) => void) | undefined;
  /** Whether responses are kept (docs/reference/gateway-cache.md). */
  readonly isCaching: boolean;
  /** Numbers of the process, shown beside the gateway's own. */
  readonly processRegistry: Registry;
  /** Proxies in front of the gateway. */
  readonly proxies: FrontProxies | undefined;
  /** What the operator says of HTTPS, and of origins. */
  readonly environment: Pick<Environment, 'HSTS' | 'CACHE_SHARED_ORIGINS' | 'PIPELINED_ORIGINS'>;
  /** Of the platform: marks requests that were sent on, so that those that come back are known. */
  readonly installation?: string | undefined;
  /**
   * Signs requests to services of the platform, which then believe the client's address, the sessions of those who log
   * in to their account by SSH, and passes of visitors at guarded ports.
   */
  readonly jwtSecret: SharedSecret;
  /** By which requests to services and passes of visitors are dated. */
  readonly sharedClock: SharedClock;
  /** Mapped hosts and their certificates; undefined: there are none. */
  readonly mapped?:
    | { readonly mappings: MappingSource; readonly certificates: MappedCertificates | undefined }
    | undefined;
  /** Before the registry that comes along; undefined: there is none. */
  readonly barrier?: WriteBarrier | undefined;
  /** What is wrong with the bus, if anything. */
  readonly busProblem: () => string | undefined;
}

/** A gateway that serves. */
export interface RunningGateway {
  readonly ports: GatewayPorts;
  readonly control: GatewayControl;
  /** Whether it serves the console. */
  readonly hasConsole: boolean;
  /** Says so in `/readyz`, takes no new connections, lets answers under way finish, ends the rest. */
  stop(graceMs: number): Promise<void>;
}

/** Starts it. Rejects when a port is taken. */
export async function openGateway(options: GatewayOptions): Promise<RunningGateway> {
  const {
    system,
    db,
    engine,
    log,
    domain,
    containersDomain,
    installation,
    sshKeys,
    accessLog,
    mapped,
    processRegistry,
    environment,
  } = options;
  const cache = options.isCaching
    ? new ResponseCache({ sharedOrigins: environment.CACHE_SHARED_ORIGINS ?? [] })
    : undefined;
  // A registry of its own: the services show theirs to all who reach them.
  const registry = new Registry();
  const metrics = gatewayMetrics(registry, containersDomain);
  const console = readConsole(consoleFolder);
  let listening: GatewayListeners | undefined;
  const control = new GatewayControl({
    db,
    engine,
    log,
    domain,
    containersDomain,
    ownRoutes: options.ownRoutes,
    fileRoutes: options.fileRoutes,
    fallback: options.fallback,
    console,
    strictTransport: strictTransportOf(environment.HSTS, domain, options.certificate),
    busProblem: options.busProblem,
    gatewayToken: gatewayTokenSigner(options.jwtSecret, options.sharedClock),
    accessProofs: new AccessProofs(options.jwtSecret),
    passwords: { verify: verifyPassword },
    sharedClock: options.sharedClock,
    mappings: mapped?.mappings,
    barrier: options.barrier,
    computeNews: computeNews(db),
    forgetAnswers: (address) => cache?.forget(address),
    expectProgram: (address) => listening?.expectProgram(address),
    leaveOrigin: (address) => listening?.leaveOrigin(address),
    endShut: (admits) => listening?.endShut(admits),
    metrics: async () => `${await processRegistry.metrics()}\n${await registry.metrics()}`,
  });
  const accounts = new PlatformAccounts({ domain, jwtSecret: options.jwtSecret, clock: CLOCK, log });
  accounts.reach(control);
  const listeners = await GatewayListeners.open({
    host: options.host,
    ports: options.ports,
    log,
    cache,
    copyListener,
    decider: control,
    certificates: { platform: options.certificate, mapped: mapped?.certificates },
    ssh:
      sshKeys === undefined
        ? undefined
        : new SshGateway({
            hostKeys: sshKeys.host,
            containers: {
              dial: engine.dial.bind(engine),
              privateKey: async () => sshKeys.platform,
              username: 'root',
              log,
            },
            authorizer: control.ssh,
            accounts: { authorizer: control.sshAccounts, commands: accounts },
            log,
          }),
    loopId: installation === undefined ? undefined : `troupe-${installation}`,
    proxies: options.proxies,
    pipelined: environment.PIPELINED_ORIGINS,
    onAccess: (entry) => {
      metrics.onAccess(entry);
      accessLog?.(accessLine(entry, new Date()));
    },
  });
  listening = listeners;
  metrics.watch(listeners, cache);
  const close = async (graceMs: number) => {
    await listeners.close(graceMs);
    cache?.close();
  };
  try {
    await control.start(system, listeners);
  } catch (error) {
    await close(0);
    throw error;
  }
  return {
    ports: listeners.ports,
    control,
    hasConsole: console !== undefined,
    stop: (graceMs) => {
      control.drain();
      return close(graceMs);
    },
  };
}

type CertificateOptions = Pick<GatewayFlags, 'tlsCert' | 'tlsKey'>;

/** The certificate that the options name; undefined when they name none. Throws CliError where it cannot be used. */
export function namedCertificate({ tlsCert, tlsKey }: CertificateOptions): PlatformCertificate | undefined {
  if (tlsCert === undefined && tlsKey === undefined) return undefined;
  if (tlsCert === undefined || tlsKey === undefined)
    throw new CliError('--tls-cert and --tls-key go together: give both.');
  try {
    return givenCertificate(tlsCert, tlsKey);
  } catch (error) {
    if (error instanceof CertificateError) throw new CliError(error.message, { cause: error.cause });
    throw error;
  }
}

/** The same, or else the one of the authority in `dataDir`, which is made when it is missing. */
export async function certificateOf(
  options: CertificateOptions,
  dataDir: string,
  domains: { readonly domain: string; readonly containers: string },
  log: Log,
): Promise<PlatformCertificate> {
  const { domain, containers } = domains;
  const certificate = namedCertificate(options) ?? (await localCertificate(dataDir, domains, Date.now()));
  const { names, files } = certificate;
  const missing = [domain, `*.${domain}`, `*.${containers}`].filter((name) => !names.includes(name));
  if (missing.length > 0) {
    const text = `the certificate is not good for ${missing.join(', ')}: clients of these hosts will refuse it`;
    log.warn({ files, names, missing }, text);
  }
  return certificate;
}
