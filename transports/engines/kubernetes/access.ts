import { Agent as HttpAgent } from 'node:http';
import { Agent, type RequestOptions } from 'node:https';
import type { KubeConfig } from '@kubernetes/client-node';
import { errorText } from '../../../lib/errors.ts';
import { EngineError } from '../../../proto/ports/engine.ts';

/** How the cluster is found: a kubeconfig file, or the service account of the pod this runs in. */
export type KubeAccess = { readonly kubeconfig: string } | { readonly inCluster: true };

/** What a request needs: where to, as whom, and over which connections. */
interface Target {
  readonly isTls: boolean;
  readonly origin: URL;
  /** TLS and authentication; `agent` keeps connections. */
  readonly options: RequestOptions;
}

interface Loaded {
  readonly config: KubeConfig;
  readonly agent: Agent | HttpAgent;
}

const keptConnections = { keepAlive: true, maxSockets: 64, maxFreeSockets: 16 };

/**
 * The credentials of a cluster, read anew when they were not accepted: tokens expire and authorities change. The
 * library is imported at the first use, for it is large.
 */
export class Credentials {
  readonly #access: KubeAccess;
  #loaded: Promise<Loaded> | undefined;

  constructor(access: KubeAccess) {
    this.#access = access;
  }

  /** Rejects EngineError `refused` when the kubeconfig cannot be read. */
  async target(): Promise<Target> {
    const { config, agent } = await this.#load();
    const server = config.getCurrentCluster()?.server;
    if (server === undefined || !URL.canParse(server)) {
      throw new EngineError('refused', 'The kubeconfig names no cluster to use (current-context).');
    }
    const options: RequestOptions = {};
    try {
      await config.applyToHTTPSOptions(options);
    } catch (cause) {
      throw new EngineError('unavailable', `No credentials for the Kubernetes cluster: ${errorText(cause)}`, { cause });
    }
    const origin = new URL(server);
    return { isTls: origin.protocol === 'https:', origin, options: { ...options, agent } };
  }

  /** For what the library does itself. */
  async config(): Promise<KubeConfig> {
    return (await this.#load()).config;
  }

  /** Forgets what was read; connections that stand go on. */
  forget(): void {
    const before = this.#loaded;
    this.#loaded = undefined;
    // What is in use ends by itself; what waits is closed.
    before?.then(({ agent }) => closeIdle(agent)).catch(() => undefined);
  }

  close(): void {
    this.#loaded?.then(({ agent }) => agent.destroy()).catch(() => undefined);
  }

  #load(): Promise<Loaded> {
    this.#loaded ??= load(this.#access).catch((error: unknown) => {
      this.#loaded = undefined;
      throw error;
    });
    return this.#loaded;
  }
}

function closeIdle(agent: Agent | HttpAgent): void {
  for (const sockets of Object.values(agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy();
}

async function load(access: KubeAccess): Promise<Loaded> {
  const { KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  try {
    if ('inCluster' in access) config.loadFromCluster();
    else config.loadFromFile(access.kubeconfig);
  } catch (cause) {
    throw new EngineError('refused', `The credentials of the cluster cannot be read: ${errorText(cause)}`, { cause });
  }
  const isTls = config.getCurrentCluster()?.server.startsWith('https:') !== false;
  return { config, agent: isTls ? new Agent(keptConnections) : new HttpAgent(keptConnections) };
}
