/** Runs the commands of people who logged in by SSH: as their clients do, with a session that this process makes. */
import { sessionTokens } from '../../actors/auth/tokens/issue-tokens.ts';
import { KeyedLimit } from '../../lib/concurrency.ts';
import type { SharedSecret } from '../../proto/auth/shared-secret.ts';
import type { GatewayDecider } from '../../proto/gateway/gateway-decider.ts';
import type { AccountChannel, AccountCommands } from '../../proto/ports/account-commands.ts';
import type { Clock } from '../../proto/ports/clock.ts';
import type { Log } from '../../proto/ports/log.ts';
import { PlatformTransport } from './platform-transport.ts';

/** How long a command may run, seconds. */
const SESSION_SECONDS = 24 * 3600;
/** Commands that run at a time: of a user, and in all. */
const MAX_OF_USER = 20;
const MAX_COMMANDS = 500;
/** Longest answer of a service that is taken for a command, bytes. */
const MOST_BYTES = 8 * 1024 * 1024;
const REFUSED = 7;

interface AccountsOptions {
  readonly domain: string;
  readonly jwtSecret: SharedSecret;
  readonly clock: Clock;
  readonly log: Log;
}

/** See AccountCommands. Until `reach` every command fails. */
export class PlatformAccounts implements AccountCommands {
  readonly #options: AccountsOptions;
  readonly #transport: PlatformTransport;
  readonly #issue: ReturnType<typeof sessionTokens>;
  readonly #running = new KeyedLimit(MAX_OF_USER, MAX_COMMANDS);

  constructor(options: AccountsOptions) {
    const { domain, jwtSecret, clock } = options;
    this.#options = options;
    this.#transport = new PlatformTransport(domain, { mostBytes: MOST_BYTES, userAgent: 'troupe by SSH' });
    this.#issue = sessionTokens(jwtSecret, SESSION_SECONDS, clock);
  }

  /** From now on the services are where `decider` leads to. */
  reach(decider: Pick<GatewayDecider, 'decide'>): void {
    this.#transport.reach(decider);
  }

  async run(channel: AccountChannel): Promise<number> {
    const release = this.#running.enter(channel.account.userId);
    if (release === undefined) {
      channel.errors.write('troupe: Too many commands run by SSH: end one, or try again later.\n');
      return REFUSED;
    }
    try {
      return await this.#run(channel, release);
    } catch (error) {
      release();
      this.#options.log.error({ err: error }, 'a command by SSH failed');
      return 1;
    }
  }

  /** `release` is called when the work has ended, which may be after its client left. */
  async #run(channel: AccountChannel, release: () => void): Promise<number> {
    // Most platforms are never asked.
    const { runAccountCommand } = await import('../client/account/run.ts');
    const { account, address } = channel;
    const { domain, log } = this.#options;
    const { userId: id, username, sessionsEpoch } = account;
    // Never the administrator's: which user that is, a gateway alone need not know.
    const { token } = await this.#issue({ id, username, isAdmin: false, sessionsEpoch, via: 'ssh_key' });
    const { code, ended } = runAccountCommand(channel, {
      domain: domain.toLowerCase(),
      token,
      transport: this.#transport.of(address),
      onFault: (error) => log.error({ err: error }, 'a command by SSH failed'),
    });
    void ended.then(release);
    return code;
  }
}
