/** The composition root of `troupe up`: a process of all roles, in start order, which ends them in reverse. */

import { reachableAddress } from '../../lib/ip-address.ts';
import type { Engine } from '../../proto/ports/engine.ts';
import type { SshAddress } from '../../storage/gateway/ssh-address.ts';
import { openCore, type PlatformCore, type PlatformOptions } from './platform-core.ts';
import { openEntrance } from './platform-entrance.ts';
import { openServices } from './platform-services.ts';
import { Teardown } from './teardown.ts';

/** A platform that serves. */
export interface Platform {
  readonly urls: {
    readonly auth: string;
    readonly compute: string;
    readonly net: string;
    readonly monitor: string;
    readonly notify: string;
    readonly http: string;
    readonly https: string;
  };
  /** Where the gateway's SSH server listens. */
  readonly ssh: { readonly host: string; readonly port: number };
  /** Makes the first administrator: platform-core.ts. */
  readonly admin: PlatformCore['admin'];
  readonly engine: Engine;
  /** Rejects with CliError when a service cannot be kept running: the process should end then. */
  readonly failed: PlatformCore['failed'];
  /** Ends everything in reverse: no new work, running requests finish, streams close. Containers keep running. */
  stop(): Promise<void>;
}

/** Builds and starts everything. When a part cannot start, those before it are ended and its error is thrown. */
export async function startPlatform(options: PlatformOptions): Promise<Platform> {
  const teardown = new Teardown(options.log);
  try {
    const core = await openCore(options, teardown);
    // Known once the gateway listens.
    let sshAddress: SshAddress | undefined;
    const services = await openServices(core, () => sshAddress);
    const { gateway, net, address } = await openEntrance(core, services);
    sshAddress = address;
    const { domain, host } = options;
    return {
      urls: {
        auth: `http://${services.auth.target}`,
        compute: `http://${services.compute.target}`,
        net: `http://${net}`,
        monitor: `http://${services.monitor.target}`,
        notify: `http://${services.notify.target}`,
        http: `http://${domain}:${gateway.ports.http}`,
        https: `https://${domain}:${gateway.ports.https}`,
      },
      ssh: { host: reachableAddress(host), port: gateway.ports.ssh },
      admin: core.admin,
      engine: core.engine,
      failed: core.failed,
      stop: () => teardown.run(),
    };
  } catch (error) {
    await teardown.run();
    throw error;
  }
}
