/** `troupe deploy`: a folder becomes the next release of an app in a container. */
import { stat, writeFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import type { Container } from '../../../client/index.ts';
import { shellWord } from '../../../lib/shell-word.ts';
import type { CacheMode } from '../../../proto/gateway/cache-mode.ts';
import { egressText } from '../containers.ts';
import { ClientFailure, failureOf, withAftermath } from '../failure.ts';
import { imageNamed } from '../image-names.ts';
import { type FileSession, openFiles } from '../own-client.ts';
import type { PortGuardOption } from '../ports.ts';
import { confirm } from '../prompt.ts';
import { egressOf, keyIds, sizeOf } from '../run.ts';
import type { ClientCommandOptions } from '../session.ts';
import { waitFor } from '../wait.ts';
import { manifestOf, walk } from './files.ts';
import { textOfRules } from './ignored.ts';
import { runStep } from './inside.ts';
import { guardOfPorts, install, openPorts, portOf, type ReleasePlan } from './install.ts';
import { leftLines, leftOf } from './left.ts';
import { type DeployPlan, planOf, TELLING_FILES, type TellingFile } from './plan.ts';
import { checked, type FolderSettings, SETTINGS_FILE, settingsOf, withStart } from './settings.ts';
import { sendFiles } from './upload.ts';

export interface DeployOptions extends ClientCommandOptions {
  readonly name?: string;
  readonly image?: string;
  readonly build?: string;
  readonly release?: string;
  readonly start?: string;
  readonly port?: number;
  readonly health?: string;
  readonly grace?: number;
  readonly memory?: number;
  readonly storage?: number;
  readonly size?: string;
  readonly address?: string;
  readonly egress?: string;
  readonly access?: PortGuardOption;
  readonly cache?: CacheMode;
  readonly note?: string;
  readonly withSecrets?: boolean;
  readonly timeout: number;
}

type MadeContainer = Pick<Container, 'id' | 'name'>;

const MOST_TEXT = 1024 * 1024;
/** Most bytes of the list of files that the container lacks. */
const MOST_LISTED = 16 * 1024 * 1024;

/** Deploys a folder: the present one unless another is named. */
export async function deploy(folder: string | undefined, options: DeployOptions): Promise<void> {
  const session = openFiles(options);
  const root = resolve(folder ?? '.');
  const isFolder = await stat(root).then(
    (found) => found.isDirectory(),
    () => false,
  );
  if (!isFolder) throw new ClientFailure('missing', `There is no folder ${root}.`);
  const { settings, plan, found, asked } = await planFor(session, root, options);
  const { files } = found;
  const { out } = session;
  const say = (line: string) => {
    if (!out.json) out.note(line);
  };
  let made: MadeContainer | undefined;
  const bring = async () => {
    const wanted = { ...settings, ...typedOf(options) };
    const running = await containerFor(session, plan, wanted, options, (container) => {
      made = container;
    });
    const container = { ...running, isNew: made !== undefined };
    const guard = await guardOfPorts(session, container, options.access);
    const fill = async (into: string): Promise<ReleasePlan> => {
      const how = { input: await manifestOf(root, files), mostBytes: MOST_LISTED };
      const list = await runStep(session, container, ['fill', into], how);
      const missing = new Set(list.split('\n'));
      const sent = files.filter(({ path, kind }) => kind === 'link' || missing.has(path));
      const bytes = sent.reduce((sum, { size }) => sum + size, 0);
      say(`Sending ${sent.length} of ${files.length} files, ${sized(bytes)}.`);
      if (sent.length > 0) await sendFiles(session, container.id, { root, folder: `${into}/app`, files: sent });
      return { ...plan, port: plan.port ?? (await portOf(session, container.id)), note: options.note ?? '' };
    };
    return { container, guard, ...(await install(session, container, { fill, say })) };
  };
  const { container, guard, release, port } = await bring().catch(async (error: unknown) => {
    throw made === undefined ? error : await leftBy(session, made, error);
  });
  const { id, name } = container;
  const place = await openPorts(session, container, port, { guard, cache: options.cache });
  if (asked !== undefined) await keepStart(session, root, asked);
  const { url } = place;
  const left = leftOf(found);
  out.done({ container_id: id, name, release: Number(release), url, left }, `${name} runs release ${release}.`);
  if (out.json) return;
  if (place.url !== undefined) out.line(place.url);
  else out.note(place.hint);
  for (const line of place.keeping) out.note(line);
}

function typedOf(options: DeployOptions): FolderSettings {
  const { name, image, build, release, start, port, health, grace, memory, storage, size, address, egress } = options;
  const all = { name, image, build, release, start, port, health, grace, memory, storage, size, address, egress };
  return checked(
    Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)),
    (setting) => `--${setting}`,
  );
}

async function planFor(session: FileSession, root: string, options: DeployOptions) {
  const { out } = session;
  const text = (name: string) => textIn(out.place.machine, root, name);
  const toml = await text(SETTINGS_FILE);
  const settings = toml === undefined ? {} : await settingsOf(toml);
  const exclude = [...(settings.exclude ?? []), ...(await textOfRules(join(root, '.troupeignore'))).split(/\r?\n/)];
  const found = await walk(root, { exclude, withSecrets: options.withSecrets === true });
  const sent = new Set(found.files.map(({ path }) => path));
  const texts: Partial<Record<TellingFile, string>> = {};
  for (const name of TELLING_FILES) {
    // What is not there cannot be used there. A Dockerfile is not used in any case.
    const content = sent.has(name) || name === 'Dockerfile' ? await text(name) : undefined;
    if (content !== undefined) texts[name] = content;
  }
  const plan = planOf(basename(root), texts, settings, typedOf(options));
  if (!out.json) for (const line of leftLines(found, plan.name)) out.note(line);
  if (found.files.length === 0) throw new ClientFailure('usage', `${root} has no file to deploy.`);
  if (plan.start !== undefined) return { settings, found, plan: { ...plan, start: plan.start }, asked: undefined };
  const hint = `It must listen on the port in PORT. Name it with --start, or in ${SETTINGS_FILE}: start = "..."`;
  const dockerfile =
    texts.Dockerfile === undefined ? '' : ' A Dockerfile is not built: push its image, or say how it starts.';
  if (!out.canAsk)
    throw new ClientFailure('usage', `Which command starts it? ${root} has ${plan.found}.${dockerfile} ${hint}`);
  out.note(`${root} has ${plan.found}.${dockerfile}`);
  const start = await out.place.ask('Which command starts it, listening on $PORT? ');
  if (start === '') throw new ClientFailure('usage', hint);
  return { settings, found, plan: { ...plan, start }, asked: { start, toml } };
}

/** Writes down what was answered, now that it has proven good: the next deployment asks nobody, as in CI. */
async function keepStart(
  { out }: FileSession,
  root: string,
  { start, toml }: { readonly start: string; readonly toml: string | undefined },
): Promise<void> {
  const kept = await writeFile(join(root, SETTINGS_FILE), withStart(toml ?? '', start)).then(
    () => true,
    () => false,
  );
  if (kept) out.note(`${SETTINGS_FILE} has the command now: nobody is asked for it again.`);
  else out.note(`${SETTINGS_FILE} cannot be written: --start says the command the next time.`);
}

/** The text of a file of the folder; undefined if it is not there. */
async function textIn(
  machine: FileSession['out']['place']['machine'],
  root: string,
  name: string,
): Promise<string | undefined> {
  const path = join(root, name);
  const found = await stat(path).catch(() => undefined);
  if (!found?.isFile() || found.size > MOST_TEXT) return undefined;
  return machine?.readText(path);
}

/**
 * The failure of a first deployment, with what is left of it. A person is asked whether that is to go: it counts among
 * the containers that they may have.
 */
async function leftBy(
  { client, out }: FileSession,
  { id, name }: MadeContainer,
  error: unknown,
): Promise<ClientFailure> {
  const word = shellWord(name);
  const isInterrupted = failureOf(error) === 'interrupted';
  if (out.canAsk && !isInterrupted && (await confirm(out, `It failed. Remove the new container ${name}?`, false))) {
    await client.call('deleteContainer', { params: { id } });
    return withAftermath(error, `${name} is removed again.`);
  }
  return withAftermath(
    error,
    `The container ${name} is new, and is left: \`troupe deploy\` goes on with it, \`troupe rm ${word}\` removes it.`,
    { container_id: id, name, remove: `troupe rm ${shellWord(id)} --yes` },
  );
}

/** The container of that name, which runs; a new one if there is none, of which `onMade` is told. */
async function containerFor(
  session: FileSession,
  plan: DeployPlan,
  settings: FolderSettings,
  { timeout }: DeployOptions,
  onMade: (container: MadeContainer) => void,
): Promise<Container> {
  const { client, out } = session;
  const { containers } = await client.call('listContainers');
  const [container, another] = containers.filter(({ name, id }) => name === plan.name || id === plan.name);
  if (another !== undefined)
    throw new ClientFailure('usage', `You have several containers ${plan.name}: name one by its id, with --name.`);
  const goal = {
    until: 'running',
    seconds: timeout,
    goesOn: 'it goes on starting, and the next deployment goes on with it',
  } as const;
  if (container === undefined) {
    const size = sizeOf(settings.size);
    const made = await client.call('createContainer', {
      body: {
        name: plan.name,
        ssh_key_ids: await keyIds(session, undefined),
        ssh_enabled: false,
        ...(plan.image === undefined ? undefined : { image: await imageNamed(session, plan.image) }),
        ...(size === undefined ? undefined : { instance_type: size }),
        ...(settings.memory === undefined ? undefined : { memory_mb: settings.memory }),
        ...(settings.address === undefined ? undefined : { address_name: settings.address }),
        ...(settings.egress === undefined ? undefined : { egress: egressOf(settings.egress) }),
        ...(settings.storage === undefined ? undefined : { storage_gb: settings.storage }),
      },
    });
    onMade(made);
    if (!out.json) out.note(`${made.name} is a new container (${made.id}).`);
    return (await waitFor(session, made, goal)) ?? gone(made.name);
  }
  const known = await withSettings(session, container, settings);
  if (known.status === 'running') return known;
  if (container.status === 'stopped' || container.status === 'failed')
    await client.call('startContainer', { params: { id: container.id }, query: { discard: 'false' } });
  return (await waitFor(session, container, goal)) ?? gone(container.name);
}

/** The container, with the address and the reach that are asked for, if they are. */
async function withSettings(
  { client }: FileSession,
  container: Container,
  { address, egress }: Pick<FolderSettings, 'address' | 'egress'>,
): Promise<Container> {
  const reach = egress === undefined ? undefined : egressOf(egress);
  const body = {
    ...(address === undefined || address === container.address_name ? undefined : { address_name: address }),
    ...(reach === undefined || egressText({ egress: reach }) === egressText(container) ? undefined : { egress: reach }),
  };
  if (Object.keys(body).length === 0) return container;
  return client.call('updateContainer', { params: { id: container.id }, body });
}

function gone(name: string): never {
  throw new ClientFailure('missing', `${name} was deleted meanwhile.`);
}

function sized(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1024 * 1024 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}
