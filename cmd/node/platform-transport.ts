/** Requests of a client inside of the platform: they reach its services as the gateway sends them on. */
import { TroupeError } from '../../client/index.ts';
import { nodeTransport } from '../../client/node/index.ts';
import type { ClientTransport, TransportSocket } from '../../client/transport.ts';
import type { GatewayDecider } from '../../proto/gateway/gateway-decider.ts';
import { GATEWAY_FIELD } from '../../proto/gateway/traffic.ts';

type Decide = GatewayDecider['decide'];
type Headers = Readonly<Record<string, string>>;

/** Makes transports for clients, by their address. Until `reach` every request is refused as `unavailable`. */
export class PlatformTransport {
  readonly #domain: string;
  readonly #inner: ClientTransport;
  #decide: Decide | undefined;

  /** `mostBytes`: of an answer; a longer one fails. */
  constructor(domain: string, options: { readonly mostBytes?: number; readonly userAgent?: string } = {}) {
    this.#domain = domain.toLowerCase();
    this.#inner = nodeTransport(options);
  }

  /** From now on the services are where `decider` leads to. */
  reach(decider: Pick<GatewayDecider, 'decide'>): void {
    this.#decide = (request) => decider.decide(request);
  }

  /** Requests of a client at `address`, whatever host their URLs name. */
  of(address: string): ClientTransport {
    const inner = this.#inner;
    const led = (method: string, url: string, headers: Headers) => this.#led(method, new URL(url), address, headers);
    return {
      socketHeaders: true,
      send: async (request) => inner.send({ ...request, ...(await led(request.method, request.url, request.headers)) }),
      connect(url, headers, listener) {
        let socket: TransportSocket | undefined;
        let isClosed = false;
        let isHeld = false;
        led('GET', url, headers).then(
          (to) => {
            if (isClosed) return;
            socket = inner.connect(to.url.replace('http', 'ws'), to.headers, listener);
            if (isHeld) socket.hold?.(true);
          },
          (error: unknown) => listener.closed(1006, error instanceof Error ? error.message : ''),
        );
        return {
          send: (data) => socket?.send(data),
          close(code) {
            isClosed = true;
            socket?.close(code);
          },
          hold(held) {
            isHeld = held;
            socket?.hold?.(held);
          },
          get waitingBytes() {
            return socket?.waitingBytes ?? 0;
          },
        };
      },
    };
  }

  /** Throws TroupeError where no service of the platform is behind the path. */
  async #led(method: string, { pathname, search }: URL, address: string, headers: Headers) {
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
