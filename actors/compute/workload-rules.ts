/** What a change of a container's settings comes to, as pure functions. */
import { isDeepStrictEqual } from 'node:util';
import { MAX_VARIABLES, MAX_VARIABLES_BYTES, type WorkloadChange } from '../../proto/compute/workload.ts';
import type { Engine, Workload } from '../../proto/ports/engine.ts';
import { invalidField } from '../../proto/validation-messages.ts';
import type { ContainerSettings } from '../../storage/compute/settings.ts';
import { isOwnImage } from './image-rules.ts';

/** Which images are the platform's own, and what they run. */
interface CommandRules {
  readonly defaultImage: string;
  readonly engine: Pick<Engine, 'baseImage'>;
}

type Variables = Readonly<Record<string, string>>;

/**
 * The settings after a change: variables are merged by name, null takes one away. Throws Refusal `invalid_request` when
 * a name would be in both, or they would be too many.
 */
export function changedSettings(before: ContainerSettings, change: WorkloadChange): ContainerSettings {
  const env = merged(before.env, change.env);
  const secrets = merged(before.secrets, change.secrets);
  for (const name of Object.keys(secrets)) {
    if (!Object.hasOwn(env, name)) continue;
    const field = Object.hasOwn(change.secrets ?? {}, name) ? 'secrets' : 'env';
    const other = field === 'env' ? 'secrets' : 'env';
    throw invalidField(`${field}.${name}`, `is in "${other}" already: a name is in one of the two`);
  }
  const all = [...Object.entries(env), ...Object.entries(secrets)];
  if (all.length > MAX_VARIABLES)
    throw invalidField('env', `must have at most ${MAX_VARIABLES} variables together with the secrets`);
  if (all.reduce((sum, [name, value]) => sum + name.length + Buffer.byteLength(value), 0) > MAX_VARIABLES_BYTES)
    throw invalidField('env', `must have at most ${MAX_VARIABLES_BYTES} bytes together with the secrets`);
  return {
    env,
    secrets,
    command: change.command === undefined ? before.command : change.command,
    entrypoint: change.entrypoint === undefined ? before.entrypoint : change.entrypoint,
    workingDir: change.working_dir === undefined ? before.workingDir : change.working_dir,
    release: change.release === undefined ? before.release : change.release,
    health: change.health === undefined ? before.health : change.health,
  };
}

function merged(before: Variables, change: WorkloadChange['env'] = {}): Record<string, string> {
  const after = new Map(Object.entries(before));
  for (const [name, value] of Object.entries(change)) {
    if (value === null) after.delete(name);
    else after.set(name, value);
  }
  return Object.fromEntries([...after].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/**
 * Refuses `invalid_request` what an image of the platform would run in the place of its SSH server: an entrypoint, and
 * a command of a default image that may run none beside the server, as it is not the engine's own.
 */
export function refuseCommand(
  image: string | null,
  { command, entrypoint }: ContainerSettings,
  { defaultImage, engine }: CommandRules,
): void {
  if (!isOwnImage(image)) return;
  const takesCommand = image !== null || defaultImage === engine.baseImage;
  if (entrypoint === null && (command === null || takesCommand)) return;
  const instead = takesCommand ? '"command", or ' : '';
  throw invalidField(
    entrypoint === null ? 'command' : 'entrypoint',
    `is for other images: the platform's own run ${instead}an executable file /root/.troupe/start ` +
      'beside their SSH server',
  );
}

/** What differs, as the audit trail may have it: names, never values. Undefined when nothing does. */
export function newsOfSettings(
  before: ContainerSettings,
  after: ContainerSettings,
): Readonly<Record<string, readonly string[]>> | undefined {
  const differing = (field: 'env' | 'secrets') =>
    Object.keys(after[field]).filter((name) => before[field][name] !== after[field][name]);
  const names = (settings: ContainerSettings) => Object.keys({ ...settings.env, ...settings.secrets });
  const replaced = (['command', 'entrypoint', 'workingDir', 'release', 'health'] as const).filter(
    (field) => !isDeepStrictEqual(before[field], after[field]),
  );
  const news = {
    env: differing('env'),
    secrets: differing('secrets'),
    removed: names(before).filter((name) => !names(after).includes(name)),
    replaced: replaced.map((field) => (field === 'workingDir' ? 'working_dir' : field)),
  };
  const told = Object.entries(news).filter(([, what]) => what.length > 0);
  return told.length === 0 ? undefined : Object.fromEntries(told);
}

type SettingsNews = NonNullable<ReturnType<typeof newsOfSettings>>;

/** Whether what differs is told to the workload, which is restarted for it. */
export function restartsFor({ replaced = [], ...variables }: SettingsNews): boolean {
  return Object.keys(variables).length > 0 || replaced.some((field) => field !== 'health' && field !== 'release');
}

/** Whether secrets alone differ: these do not go back. */
export function isOfSecrets(news: SettingsNews | undefined): boolean {
  return news !== undefined && Object.keys(news).every((field) => field === 'secrets');
}

/** Settings of before with the secrets of now. */
export function withSecretsOf(former: ContainerSettings, { secrets }: ContainerSettings): ContainerSettings {
  const env = Object.entries(former.env).filter(([name]) => !Object.hasOwn(secrets, name));
  return { ...former, env: Object.fromEntries(env), secrets };
}

/** The engine's form of settings, and whether there are any. */
export function workloadOf(settings: ContainerSettings): {
  readonly workload: Workload;
  readonly isConfigured: boolean;
} {
  const { env, secrets, command, entrypoint, workingDir } = settings;
  const workload = {
    env: { ...env, ...secrets },
    ...(command === null ? {} : { command }),
    ...(entrypoint === null ? {} : { entrypoint }),
    ...(workingDir === null ? {} : { workingDir }),
  };
  return { workload, isConfigured: Object.keys(workload).length > 1 || Object.keys(workload.env).length > 0 };
}
