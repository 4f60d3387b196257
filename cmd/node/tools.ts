/** Answers what programs send to /mcp: tools that call the services of the platform where its gateway finds them. */
import { TroupeClient } from '../../client/index.ts';
import type { GatewayDecider } from '../../proto/gateway/gateway-decider.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { ToolReply, ToolRequest, ToolServer } from '../../proto/ports/tools.ts';
import { addressOf, type OpenPort } from '../config/page-address.ts';
import { PlatformTransport } from './platform-transport.ts';

/** See ToolServer. Until `reach` every call of a tool is refused as `unavailable`. */
export class PlatformTools implements ToolServer {
  readonly #domain: string;
  readonly #log: Log;
  readonly #transport: PlatformTransport;

  constructor(domain: string, log: Log) {
    this.#domain = domain.toLowerCase();
    this.#log = log;
    this.#transport = new PlatformTransport(domain);
  }

  /** From now on the services are where `decider` leads to. */
  reach(decider: Pick<GatewayDecider, 'decide'>): void {
    this.#transport.reach(decider);
  }

  async answer(request: ToolRequest): Promise<ToolReply> {
    // Most platforms are never asked.
    const { answerMessage } = await import('../mcp/http.ts');
    const url = `https://${request.header('x-forwarded-host') ?? this.#domain}`;
    const { token, address: client } = request;
    const transport = this.#transport.of(client);
    const context = {
      client: new TroupeClient({ url: `https://${this.#domain}`, token, transport }),
      address: (rule: OpenPort, hostname: string) => addressOf(rule, hostname, url, undefined),
    };
    return answerMessage(request, `${url}/mcp`, context, (error) => this.#log.error({ err: error }, 'a tool failed'));
  }
}
