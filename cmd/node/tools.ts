/** The tools at `/mcp`, which call the services of the platform where its gateway finds them. */
import { TroupeClient, TroupeError } from '../../client/index.ts';
import { nodeTransport } from '../../client/node/index.ts';
import type { ClientTransport, TransportSocket } from '../../client/transport.ts';
import type { GatewayDecider } from '../../proto/gateway/gateway-decider.ts';
import { GATEWAY_FIELD } from '../../proto/gateway/traffic.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { ToolReply, ToolRequest, ToolServer } from '../../proto/ports/tools.ts';
import { addressOf } from '../config/page-address.ts';

type Decide = GatewayDecider['decide'];

/** See ToolServer. Until `reach` every call of a tool is refused as `unavailable`. */
export class PlatformTools implements ToolServer {
  readonly #domain: string;
  readonly #log: Log;
  readonly #transport = nodeTransport();
  #decide: Decide | undefined;

  constructor(domain: string, log: Log) {
    this.#domain = domain.toLowerCase();
    this.#log = log;
  }

  /** From now on the services are where `decider` leads to. */
  reach(decider: Pick<GatewayDecider, 'decide'>): void {
    this.#decide = (request) => decider.decide(request);
  }

  async answer(request: ToolRequest): Promise<ToolReply> {
    // Most platforms are never asked.
    const { answerMessage } = await import('../mcp/http.ts');
    const url = `https://${request.header('x-forwarded-host') ?? this.#domain}`;
    const { token, address: client } = request;
    const transport = this.#transportFor(client);
    const context = {
      client: new TroupeClient({ url: `https://${this.#domain}`, token, transport }),
      address: (port: number, hostname: string) => addressOf(port, hostname, url, undefined),
    };
    return answerMessage(request, `${url}/mcp`, context, (error) => this.#log.error({ err: error }, 'a tool failed'));
  }

  /** Requests for a client, as the gateway sends them on. */
  #transportFor(address: string): ClientTransport {
    const inner = this.#transport;
    const led = (method: string, url: string, headers: Readonly<Record<string, string>>) =>
      this.#led(method, new URL(url), address, headers);
    return {
      socketHeaders: true,
      send: async (request) => inner.send({ ...request, ...(await led(request.method, request.url, request.headers)) }),
      connect(url, headers, listener) {
        let socket: TransportSocket | undefined;
        let isClosed = false;
        led('GET', url, headers).then(
          (to) => {
            if (!isClosed) socket = inner.connect(to.url.replace('http', 'ws'), to.headers, listener);
          },
          (error: unknown) => listener.closed(1006, error instanceof Error ? error.message : ''),
        );
        return {
          send: (data) => socket?.send(data),
          close(code) {
            isClosed = true;
            socket?.close(code);
          },
        };
      },
    };
  }

  /** Throws TroupeError where no service of the platform is behind the path. */
  async #led(method: string, { pathname, search }: URL, address: string, headers: Readonly<Record<string, string>>) {
    const [host, target] = [this.#domain, `${pathname}${search}`];
    const asked = { method, host, hostPort: undefined, target, hasBody: false, field: () => undefined, address };
    const decision = await this.#decide?.({ ...asked, port: 443, isEncrypted: true });
    const to = decision !== undefined && 'forward' in decision ? decision : undefined;
    // A token of the platform goes to the platform's own services.
    const gatewayToken = to?.gatewayToken?.({ method, host, target, address });
    if (to === undefined || gatewayToken === undefined)
      throw new TroupeError('unavailable', 'A part this needs is not available at the moment.', { status: 503 });
    const { host: machine, port } = to.forward;
    return {
      url: `http://${machine.includes(':') ? `[${machine}]` : machine}:${port}${to.target}`,
      headers: {
        ...headers,
        'x-forwarded-for': address,
        'x-forwarded-host': host,
        'x-forwarded-proto': 'https',
        [GATEWAY_FIELD]: gatewayToken,
      },
    };
  }
}
