/** A real platform with its console, for the administrator and for the user `ann`, and no browser yet. */
import assert from 'node:assert/strict';
import { type Line, line } from '../client/line.ts';
import { type RunningPlatform, startPlatform, troupe } from '../cluster/platform.ts';
import { testDatabase } from '../database/database.ts';
import { skipWithoutDocker, tinyImage } from '../engine/docker-client.ts';
import { type Cleanup, tempDir } from '../temp.ts';
import { buildOfConsole } from './console-build.ts';

/** Why there can be no console here; false: there can. */
export const withoutServedConsole = buildOfConsole.skip || skipWithoutDocker();

/** The password of the user `ann`. */
export const PASSWORD = 'the password of ann';

/** Those of all who may log in. */
export const PASSWORDS = { ann: PASSWORD, admin: 'the admin of this test' } as const;

/** How browsers come. */
export type Scheme = 'http' | 'https';

/** A console that browsers can open. */
export interface ServedConsole {
  /** The one that runs now. */
  readonly platform: RunningPlatform;
  /** Between the browser and the platform. */
  readonly line: Line;
  /** Stops the platform and starts it again with its data, as another version if `program` is given. */
  restart(program?: string[]): Promise<void>;
  /** `http://troupe.localhost:<port of the line>`, or https. */
  readonly origin: string;
}

/** Starts the platform, with `more` in its environment; containers have the tiny image. Ends with `cleanup`. */
export async function serveConsole(
  cleanup: Cleanup,
  more: Record<string, string> = {},
  scheme: Scheme = 'http',
): Promise<ServedConsole> {
  const data = await tempDir(cleanup);
  const database = await testDatabase();
  cleanup.after(() => database.close());
  const env = {
    DATABASE_URL: database.url,
    DEFAULT_IMAGE: more.DEFAULT_IMAGE ?? (await tinyImage()),
    ADMIN_PASSWORD: PASSWORDS.admin,
    ...more,
  };
  let platform = await startPlatform({ data, env });
  cleanup.after(async () => {
    await platform.stop();
  });
  const added = await troupe(['users', 'add', 'ann', '--data', data], { env, input: `${PASSWORD}\n` });
  assert.equal(added.code, 0, added.stderr);
  const wire = await line(cleanup, portOf(platform, scheme));
  return {
    get platform() {
      return platform;
    },
    line: wire,
    restart: async (program) => {
      await platform.stop();
      platform = await startPlatform({ data, env, program });
      wire.mend(portOf(platform, scheme));
    },
    origin: `${scheme}://${platform.ready.domain}:${wire.port}`,
  };
}

/** Where its gateway listens for browsers of this machine. */
function portOf({ ready }: RunningPlatform, scheme: Scheme): number {
  assert.ok(ready.urls.console !== null, 'the console is not built');
  return Number(new URL(scheme === 'http' ? ready.urls.console : ready.urls.https).port);
}
