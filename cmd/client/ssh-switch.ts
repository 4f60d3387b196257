/** `troupe ssh --enable`, `--disable`. */
import type { Container } from '../../client/index.ts';
import { ClientFailure } from './failure.ts';
import { containerOf } from './names.ts';
import { type ClientCommandOptions, type ClientSession, openSession } from './session.ts';

export interface SshOptions extends ClientCommandOptions {
  readonly enable?: boolean;
  readonly disable?: boolean;
}

/** Lets SSH into a container, or no longer. */
export async function switchSsh(
  { client, out }: ClientSession,
  { id, name }: Container,
  options: SshOptions,
): Promise<void> {
  const answer = await client.call('setSsh', { params: { id }, body: { ssh_enabled: options.enable === true } });
  out.done(answer, `SSH to ${name} is ${answer.ssh_enabled ? 'on' : 'off'}.`);
}

/** The same by name, where that is all that there is: by SSH. */
export async function switchSshOf(text: string | undefined, options: SshOptions): Promise<void> {
  const session = openSession(options);
  if (!options.enable && !options.disable)
    throw new ClientFailure(
      'usage',
      '`shell` opens a shell here; `ssh --enable` and `--disable` switch SSH on and off.',
    );
  await switchSsh(session, await containerOf(session, text), options);
}
