/**
 * How a workload with settings is run on Docker. What is in a container's description is seen by whoever may inspect
 * it, and is copied into images that are made of it. So nothing of the settings stands there: the container runs a
 * script of the volume of keys, which is written anew before each start (keys.ts). Its arguments are what the image
 * itself runs.
 */
import { quotedWord } from '../../../lib/shell-word.ts';
import type { TarEntry } from '../../../lib/tar.ts';
import { EngineError, type Workload } from '../../../proto/ports/engine.ts';
import { ENVIRONMENT_FILE, environmentScript, INIT, wordsOf } from '../common/workload.ts';
import { KEYS_FOLDER } from './naming.ts';

const RUN_FILE = `${KEYS_FOLDER}/run`;
const SHELL = '/bin/sh';
/** The largest owner that an archive can name. */
const MAX_OWNER = 0o7777777;

/** What an image, or a container, says it runs. */
export interface ImageCommand {
  readonly Entrypoint: readonly string[] | null;
  readonly Cmd: readonly string[] | null;
}

/** What a container runs that is run with settings. */
export function wrapped({ Entrypoint, Cmd }: ImageCommand): ImageCommand {
  const own = Entrypoint ?? [];
  return { Entrypoint: [SHELL, RUN_FILE, String(own.length), ...own, ...(Cmd ?? [])], Cmd: [] };
}

/** Whether a container runs what `wrapped` says. */
export function isWrapped({ Entrypoint }: ImageCommand): boolean {
  return Entrypoint?.[0] === SHELL && Entrypoint[1] === RUN_FILE && /^[0-9]{1,5}$/.test(Entrypoint[2] ?? '');
}

/** What the image of a container says, whether that is run with settings or not. */
export function unwrapped(command: ImageCommand): ImageCommand {
  if (!isWrapped(command)) return command;
  const [, , count, ...words] = command.Entrypoint ?? [];
  const own = Number(count);
  return { Entrypoint: words.slice(0, own), Cmd: words.slice(own) };
}

/**
 * The files of a container that is run with settings. They are for its workload, whose user may be another than root:
 * one with a name is looked up in the container's own files, which are not ours to read, so all in it may read them.
 * Throws EngineError `refused` when there is nothing to run.
 */
export function workloadFiles(command: ImageCommand, user: string, workload: Workload): TarEntry[] {
  const { Entrypoint, Cmd } = unwrapped(command);
  const image = { entrypoint: Entrypoint ?? [], command: Cmd ?? [] };
  const words = wordsOf(image, { ...workload, ...besideSsh(image, workload) });
  if (words.length === 0)
    throw new EngineError('refused', 'The image does not say what to run: give the container a command.');
  const script = [
    '# Written by the platform before each start.',
    `. ${ENVIRONMENT_FILE}`,
    ...(workload.workingDir === undefined ? [] : [enter(workload.workingDir)]),
    `exec ${words.map(quotedWord).join(' ')}`,
  ];
  const [name = ''] = user.split(':');
  const owner = /^[0-9]+$/.test(name) && Number(name) <= MAX_OWNER ? Number(name) : 0;
  const isNamed = name !== '' && name !== 'root' && String(owner) !== name;
  const file = (path: string, text: string): TarEntry => ({
    kind: 'file',
    path: path.slice(1),
    mode: isNamed ? 0o444 : 0o400,
    owner,
    data: Buffer.from(text),
  });
  return [file(RUN_FILE, `${script.join('\n')}\n`), file(ENVIRONMENT_FILE, environmentScript(workload.env))];
}

/** The file of an environment without a variable. */
export function noEnvironment(): TarEntry {
  return { kind: 'file', path: ENVIRONMENT_FILE.slice(1), mode: 0o444, owner: 0, data: Buffer.alloc(0) };
}

/** A command for an image whose main process is the platform's: that runs its arguments beside the SSH server. */
function besideSsh(
  image: { readonly entrypoint: readonly string[]; readonly command: readonly string[] },
  { entrypoint, command }: Workload,
): Pick<Workload, 'command'> {
  const isOurs = image.entrypoint.length === 0 && image.command.length === 1 && image.command[0] === INIT;
  return isOurs && entrypoint === undefined && command !== undefined ? { command: [INIT, ...command] } : {};
}

/** Goes to a folder, which is made where it is missing. */
function enter(folder: string): string {
  const at = quotedWord(folder);
  return `[ -d ${at} ] || mkdir -p ${at}; cd ${at} || exit 126`;
}

/** That settings need a shell. */
export function needsShell(): EngineError {
  return new EngineError(
    'refused',
    'The image of this container has no /bin/sh, which its settings need: choose an image with a shell, or remove ' +
      'its environment, secrets, command, entrypoint and working_dir.',
  );
}
