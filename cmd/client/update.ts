/** `troupe update`: changes a container, and waits until it runs with the change. */
import { type CallInput, type CallReply, type Container, imageName, readableHost } from '../../client/index.ts';
import { egressText } from './containers.ts';
import { ClientFailure } from './failure.ts';
import { noteHealth } from './health.ts';
import { imageNamed } from './image-names.ts';
import { containerOf, mustBeFree, pick } from './names.ts';
import { revisionNamed } from './revisions.ts';
import { type SettingOptions, settingsOf } from './run.ts';
import { openSession } from './session.ts';
import { settled } from './settled.ts';
import { expiryOf } from './times.ts';

export interface UpdateOptions extends SettingOptions {
  /** False: what the image says. */
  readonly command?: boolean;
  readonly name?: string;
  /** Also if another container has that name. */
  readonly sameName?: boolean;
  readonly network?: string | false;
  readonly alias?: string | false;
  readonly discard?: boolean;
  /** A number, or `previous`. */
  readonly revision?: string;
  /** Those of that revision. */
  readonly secrets?: boolean;
}

type ContainerUpdate = NonNullable<CallInput<'updateContainer'>['body']>;

/** Changes a container, and what it runs. Throws ClientFailure, `failed` when its image was not changed. */
export async function updateContainer(name: string, command: readonly string[], options: UpdateOptions): Promise<void> {
  const session = openSession(options);
  const { client, out } = session;
  const settings = settingsOf(command, options);
  const { image, key, address } = options;
  const keys = key === undefined ? undefined : (await client.call('listSshKeys')).ssh_keys;
  const expires_at = expiryOf(options.expires);
  const change: ContainerUpdate = {
    ...settings,
    ...(options.name === undefined ? undefined : { name: options.name }),
    ...(image === undefined ? undefined : { image: image === 'default' ? null : await imageNamed(session, image) }),
    ...(keys === undefined ? undefined : { ssh_key_ids: key?.map((text) => pick(keys, text, 'SSH key').id) }),
    ...(options.command === false ? { command: null } : undefined),
    ...(expires_at === undefined ? undefined : { expires_at }),
    ...(address === undefined ? undefined : { address_name: address === 'none' ? null : address }),
    // `--no-network` and `--no-alias` are false.
    ...(options.network === undefined ? undefined : { network: options.network || null }),
    ...(options.alias === undefined ? undefined : { alias: options.alias || null }),
  };
  const { revision, secrets = false } = options;
  if (secrets && revision === undefined)
    throw new ClientFailure('usage', '--secrets is of a revision: name one, such as --revision previous.');
  if (Object.keys(change).length === 0 && revision === undefined)
    throw new ClientFailure('usage', 'Say what to change, such as --image or --memory: see `troupe update --help`.');
  if (command.length > 0 && options.command === false)
    throw new ClientFailure('usage', 'Give a command, or --no-command.');
  const before = await containerOf(session, name);
  if (options.name !== undefined && options.sameName !== true) await mustBeFree(session, options.name, before.id);
  const body: ContainerUpdate = {
    ...change,
    ...(revision === undefined ? undefined : { revision: await revisionNamed(session, before, revision) }),
    ...(secrets ? { revision_secrets: true } : undefined),
  };
  const asked = await client.call('updateContainer', {
    params: { id: before.id },
    body: { ...body, ...(options.discard ? { discard: true } : {}) },
  });
  const now = options.wait === false ? asked : await settled(session, before, asked, options.timeout);
  const { rollback } = asked;
  out.done(rollback === undefined ? now : { ...now, rollback }, sentence(before, now, body, rollback));
  noteHealth(session, now);
}

/** An image as `--image` takes it. */
function imageText(image: string | undefined): string {
  const name = imageName(image ?? '');
  return name === 'base' ? 'default' : name;
}

/** What counts at once, also of a container that does not run. */
const AT_ONCE: ReadonlySet<string> = new Set([
  ...['name', 'network', 'alias', 'expires_at', 'egress', 'ssh_key_ids', 'address_name', 'overlap', 'release'],
]);

type Rollback = NonNullable<CallReply<'updateContainer'>['rollback']>;

/** What it went back to, and which values its secrets have. A platform of before does not say that. */
function revisionText(number: number, rollback: Rollback | undefined): string {
  const as = `as in revision ${number}`;
  if (rollback === undefined) return as;
  const { secrets, secrets_gone = [] } = rollback;
  if (secrets === 'today') return `${as}, secrets as of today`;
  const gone = secrets_gone.length === 0 ? '' : ` but for ${secrets_gone.join(', ')}, which you removed since`;
  return `${as}, with the secrets of then${gone}`;
}

/** What was changed, and whether it was restarted. */
function sentence(before: Container, now: Container, body: ContainerUpdate, rollback: Rollback | undefined): string {
  const { name } = now;
  const changed = [
    before.name === name ? '' : `the name (was ${before.name})`,
    before.image === (now.next_image ?? now.image) || body.revision !== undefined
      ? ''
      : `the image (${imageText(now.next_image ?? now.image)})`,
    before.memory_mb === now.memory_mb ? '' : `memory (${before.memory_mb} to ${now.memory_mb} MB)`,
    before.instance_type === now.instance_type ? '' : `size (${before.instance_type} to ${now.instance_type})`,
    before.storage_gb === now.storage_gb ? '' : `storage (${before.storage_gb} to ${now.storage_gb} GB)`,
    before.ssh_key_ids?.join() === now.ssh_key_ids?.join() ? '' : 'the SSH keys',
    before.pull_policy === now.pull_policy ? '' : 'when the image is pulled',
    body.command === undefined ? '' : body.command === null ? 'the command (as the image says)' : 'the command',
    before.network === now.network ? '' : `the network (${now.network ?? 'none'})`,
    before.expires_at === now.expires_at ? '' : `when it expires (${now.expires_at ?? 'never'})`,
    before.address_name === now.address_name ? '' : `the address (${readableHost(now)})`,
    egressText(before) === egressText(now) ? '' : `what it may reach (${egressText(now)})`,
    before.overlap === now.overlap ? '' : `whether another image begins beside it (${now.overlap ? 'yes' : 'no'})`,
    before.alias === now.alias ? '' : `the name in the network (${now.alias ?? 'none'})`,
    body.entrypoint === undefined ? '' : `the entrypoint${body.entrypoint === null ? ' (as the image says)' : ''}`,
    body.working_dir === undefined ? '' : `the folder where it begins (${body.working_dir ?? 'as the image says'})`,
    body.revision === undefined ? '' : `what it runs (${revisionText(body.revision, rollback)})`,
    body.release === undefined ? '' : `the release command${body.release === null ? ' (none)' : ''}`,
    body.restart === undefined && body.stop_grace === undefined ? '' : 'how it ends',
    body.health === undefined ? '' : 'how its health is looked at',
  ].filter((each) => each !== '');
  if (changed.length === 0) return `${name} was so already: nothing is changed.`;
  const what = `Changed ${name}: ${changed.join(', ')}.`;
  const isReplaced = before.image !== (now.next_image ?? now.image) && now.changes_without_pause === true;
  if (now.next_image !== undefined)
    return `${what} ${isReplaced ? 'A new container takes its place' : 'It is restarted'} once the image is pulled.`;
  if (now.status === 'stopped' || now.status === 'failed')
    return Object.keys(body).every((field) => AT_ONCE.has(field))
      ? `${what} It stays ${now.status}: \`troupe start ${name}\` starts it.`
      : `${what} It counts from the next start.`;
  const restarted = now.status !== 'running' || before.started_at !== now.started_at;
  if (restarted && isReplaced) return `${what} A new container took its place.`;
  return `${what} It was ${restarted ? '' : 'not '}restarted.`;
}
