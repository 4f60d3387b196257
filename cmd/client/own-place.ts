/** The person's own machine as the place of a command: this process, its files and programs. */
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { openBrowser } from './device.ts';
import { ClientFailure } from './failure.ts';
import { clientOf } from './own-client.ts';
import type { CommandPlace, OwnMachine } from './place.ts';
import { chooseProfile } from './profiles.ts';

const ENDING = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

const KEY_FILES = ['id_ed25519.pub', 'id_ecdsa.pub', 'id_rsa.pub'];

const keyName = (): string => `${userInfo().username}@${hostname()}`.slice(0, 64);
const sshFile = (name: string): string => join(userInfo().homedir, '.ssh', name);

const MOST_READ = 1024 * 1024;

function readText(path: string): string {
  try {
    if (statSync(path).size > MOST_READ) throw new ClientFailure('usage', `${path} is larger than 1 MiB.`);
    return readFileSync(path, 'utf8');
  } catch (cause) {
    if (cause instanceof ClientFailure) throw cause;
    throw new ClientFailure('usage', `${path} cannot be read.`, { cause });
  }
}

const MACHINE: OwnMachine = {
  keyName,
  ownKeyFile: () => KEY_FILES.map(sshFile).find((file) => existsSync(file)),
  get newKeyFile() {
    return sshFile('id_ed25519');
  },
  async makeKey() {
    // Not ssh-keygen: a machine without an SSH client has none.
    const { generateKeyPair } = await import('../../transports/ssh/keys.ts');
    const { privateKey, publicKey } = generateKeyPair(keyName());
    const path = sshFile('id_ed25519');
    if (existsSync(path))
      throw new ClientFailure(
        'usage',
        `${path} has no ${path}.pub beside it: \`ssh-keygen -y -f ${path} > ${path}.pub\` makes that.`,
      );
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    writeFileSync(path, privateKey, { mode: 0o600, flag: 'wx' });
    writeFileSync(`${path}.pub`, `${publicKey}\n`, { flag: 'wx' });
    return `${path}.pub`;
  },
  readText,
  readPublicKey(path) {
    const text = readText(path);
    if (text.includes('PRIVATE KEY')) throw new ClientFailure('usage', `${path} is the private key: name ${path}.pub.`);
    return text;
  },
  async tagSizes(images, options) {
    return (await import('./images/sizes.ts')).tagSizes(images, options);
  },
  openBrowser,
};

/** See CommandPlace. */
export const OWN_PLACE: CommandPlace = {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  environment: process.env,
  machine: MACHINE,
  program: 'troupe',
  open(named, options) {
    const profile = chooseProfile(named);
    return { client: clientOf(profile, options), profile };
  },
  async ask(question) {
    // On standard error, so that the answer to a redirected command is data alone.
    const lines = createInterface({ input: process.stdin, output: process.stderr });
    let isAnswered = false;
    const ended = new Promise<string>((_, reject) => {
      for (const end of ['SIGINT', 'close'])
        lines.once(end, () => {
          // What is said next should not stand behind the question.
          if (!isAnswered) process.stderr.write('\n');
          isAnswered = true;
          reject(new ClientFailure('interrupted', 'Interrupted.'));
        });
    });
    try {
      return (await Promise.race([lines.question(question), ended])).trim();
    } finally {
      isAnswered = true;
      lines.close();
    }
  },
  onInterrupt(listener) {
    process.on('SIGINT', listener);
    return () => void process.off('SIGINT', listener);
  },
  onEnd(listener) {
    for (const signal of ENDING) process.on(signal, listener);
    return () => {
      for (const signal of ENDING) process.off(signal, listener);
    };
  },
  exitWith(code) {
    process.exitCode = code;
  },
};
