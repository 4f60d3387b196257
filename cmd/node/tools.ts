/** Answers what programs send to /mcp: tools that call the services of the platform where its gateway finds them. */
import { type Outlook, TroupeClient } from '../../client/index.ts';
import type { GatewayDecider } from '../../proto/gateway/gateway-decider.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { ToolReply, ToolRequest, ToolServer } from '../../proto/ports/tools.ts';
import { PlatformTransport } from './platform-transport.ts';

/** Programs have patience of their own: past it a tool says when it may be called again. */
const LIMIT_WAIT_MS = 10_000;

/** See ToolServer. Until `reach` every call of a tool is refused as `unavailable`. */
export class PlatformTools implements ToolServer {
  readonly #domain: string;
  readonly #log: Log;
  readonly #transport: PlatformTransport;
  #ports: Outlook['gateway'];

  constructor(domain: string, log: Log) {
    this.#domain = domain.toLowerCase();
    this.#log = log;
    this.#transport = new PlatformTransport(domain);
  }

  /** From now on the services are where `decider` leads to. `ports`: on which the gateway listens. */
  reach(decider: Pick<GatewayDecider, 'decide'>, ports: NonNullable<Outlook['gateway']>): void {
    this.#ports = ports;
    this.#transport.reach(decider);
  }

  async answer(request: ToolRequest): Promise<ToolReply> {
    // Most platforms are never asked.
    const { answerMessage } = await import('../client/mcp/http.ts');
    const scheme = request.header('x-forwarded-proto') === 'http' ? 'http' : 'https';
    const host = request.header('x-forwarded-host');
    const called = `${scheme}://${host ?? ''}`;
    const page = host !== undefined && URL.canParse(called) ? new URL(called) : undefined;
    const { token, address: client } = request;
    const transport = this.#transport.of(client);
    const context = {
      client: new TroupeClient({ url: `https://${this.#domain}`, token, transport, limitWaitMs: LIMIT_WAIT_MS }),
      outlook: () => ({ page, gateway: this.#ports }),
    };
    return answerMessage(request, `https://${this.#domain}/mcp`, context, (error) =>
      this.#log.error({ err: error }, 'a tool failed'),
    );
  }
}
