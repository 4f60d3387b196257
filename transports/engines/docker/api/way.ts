import { readFileSync } from 'node:fs';
import { Agent, type ClientRequest, request as httpRequest, type RequestOptions } from 'node:http';
import { Agent as TlsAgent, request as tlsRequest } from 'node:https';
import { join } from 'node:path';
import { EngineError } from '../../../../proto/ports/engine.ts';
import { type DockerTarget, parseDockerHost } from './address.ts';
import { SshTunnel } from './ssh-tunnel.ts';

const AGENT_OPTIONS = { keepAlive: true, maxSockets: 32, maxFreeSockets: 8 };

/** The way to a Docker Engine: its socket, TCP, TLS with a client certificate, or a tunnel through SSH. */
export class DockerWay {
  readonly #target: DockerTarget;
  readonly #tunnel: SshTunnel | undefined;
  readonly #agent: Agent;
  #certificates: Certificates | undefined;

  /** Throws EngineError `refused` for an address that cannot be used. Connects on the first request. */
  constructor(address: string) {
    this.#target = parseDockerHost(address);
    this.#tunnel = 'ssh' in this.#target ? new SshTunnel(this.#target.ssh) : undefined;
    this.#agent = 'certs' in this.#target ? new TlsAgent(AGENT_OPTIONS) : new Agent(AGENT_OPTIONS);
  }

  /** A function that makes requests, when the way is open: as node:http's. Rejects with EngineError. */
  async open(): Promise<(options: RequestOptions, own: boolean) => ClientRequest> {
    const target = this.#target;
    const agentOf = (own: boolean): Agent | false => (own ? false : this.#agent);
    if ('ssh' in target) {
      const socketPath = await this.#tunnel?.socketPath();
      return (options, own) => httpRequest({ ...options, socketPath, agent: agentOf(own) });
    }
    if (!('certs' in target) || target.certs === undefined) {
      return (options, own) => httpRequest({ ...target, ...options, agent: agentOf(own) });
    }
    const { host, port } = target;
    this.#certificates ??= certificatesIn(target.certs);
    const tls = { ...this.#certificates, host, port, servername: /^[\d.]+$|:/.test(host) ? '' : host };
    return (options, own) => tlsRequest({ ...tls, ...options, agent: agentOf(own) });
  }

  /** Closes the kept-alive connections, and a tunnel with all that is in it. */
  close(): void {
    this.#agent.destroy();
    this.#tunnel?.close();
  }
}

interface Certificates {
  readonly ca: Buffer;
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** The files as `docker` has them: the authority of the engine, and our certificate with its key. */
function certificatesIn(folder: string): Certificates {
  const read = (name: string): Buffer => {
    try {
      return readFileSync(join(folder, name));
    } catch (cause) {
      const message =
        `${join(folder, name)} cannot be read: TLS to a Docker Engine takes ca.pem, cert.pem and key.pem in ` +
        'DOCKER_CERT_PATH.';
      throw new EngineError('refused', message, { cause });
    }
  };
  return { ca: read('ca.pem'), cert: read('cert.pem'), key: read('key.pem') };
}
