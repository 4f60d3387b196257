/** The command lines of services that run alone. */
import type { Command } from 'commander';
import type { Flag } from '../config/option-values.ts';
import type { Role } from '../node/roles/role.ts';
import type { AloneOptions } from '../node/run-alone.ts';

/** One whose value is checked. */
type CheckedFlag = readonly [string, string, check: (value: string) => string];

/** Options that all services have. */
interface Flags {
  readonly domain: CheckedFlag;
  readonly logService: CheckedFlag;
  readonly logSource: Flag;
}

/** Adds them. */
export function addAlone(program: Command, { domain, logService, logSource }: Flags): void {
  const add = (name: string, what: string, port: number, role: () => Promise<Role>) => {
    const command = program
      .command(name)
      .description(
        `run the ${what} service alone, on DATABASE_URL, NATS_URL and the platform's secrets ` +
          '(docs/reference/operations.md)',
      )
      .option('--addr <address>', 'address it listens on, host:port or :port', `:${port}`)
      .option(...domain)
      .option('--json', 'print one line of JSON once it serves')
      .option(...logService)
      .option(...logSource);
    command.action(async (options: AloneOptions) => {
      const { runAlone } = await import('../node/run-alone.ts');
      await runAlone(await role(), options);
    });
  };
  add('auth', 'authentication', 7001, async () => (await import('../node/roles/auth.ts')).AUTH);
  add('compute', 'compute', 7002, async () => (await import('../node/roles/compute.ts')).COMPUTE);
}
