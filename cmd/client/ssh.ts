/** `troupe ssh`, `forward`, `ssh-config`: the system's own ssh, with what it needs to know. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import type { Container } from '../../client/index.ts';
import { ClientFailure } from './failure.ts';
import { containerOf } from './names.ts';
import { configFolder } from './profiles.ts';
import { type ClientCommandOptions, type ClientSession, openSession } from './session.ts';
import { type SshOptions, switchSsh } from './ssh-switch.ts';

interface SshPlace {
  readonly host: string;
  readonly port: number;
  readonly user: string;
}

/** Opens SSH to a container, with further arguments of ssh; or turns SSH on or off. */
export async function ssh(name: string | undefined, args: readonly string[], options: SshOptions): Promise<void> {
  const session = openSession(options);
  const container = await containerOf(session, name);
  if (options.enable || options.disable) return switchSsh(session, container, options);
  const address = addressOf(container);
  await become('ssh', [...hostOptions(session, address), '-p', String(address.port), target(address), ...args]);
}

/** Leads a port of this machine to one of a container, until it is interrupted. */
export async function forward(name: string, text: string, options: ClientCommandOptions): Promise<void> {
  const [, here, there = here] = /^(\d{1,5})(?::(\d{1,5}))?$/.exec(text) ?? [];
  if (here === undefined)
    throw new ClientFailure('usage', `${text} is no port such as 8080:80, here and in the container.`);
  const session = openSession(options);
  const container = await containerOf(session, name);
  const address = addressOf(container);
  const lead = `127.0.0.1:${here}:127.0.0.1:${there}`;
  session.out.note(`http://127.0.0.1:${here} is port ${there} of ${container.name}, until Ctrl-C.`);
  const args = ['-N', '-L', lead, '-o', 'ExitOnForwardFailure=yes', '-o', 'ServerAliveInterval=15'];
  await become('ssh', [...args, ...hostOptions(session, address), '-p', String(address.port), target(address)]);
}

/** Prints a block for each container for ~/.ssh/config. */
export async function printSshConfig(options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const { containers } = await session.client.call('listContainers');
  const reachable = containers.filter(({ ssh: address }) => address !== undefined);
  if (session.out.json)
    return session.out.line(JSON.stringify(reachable.map(({ name, ssh: address }) => ({ name, ...address }))));
  if (reachable.length === 0) session.out.note('SSH is on for no container: `troupe ssh NAME --enable`.');
  for (const { name, ssh: address } of reachable) {
    if (address === undefined) continue;
    session.out.line(`Host ${name.replaceAll(' ', '-')}.troupe`);
    const { host, port, user } = address;
    const settings = {
      HostName: host,
      Port: port,
      User: user,
      HostKeyAlias: aliasOf(session, address),
      UserKnownHostsFile: knownHosts(),
    };
    for (const [key, value] of Object.entries(settings)) session.out.line(`  ${key} ${value}`);
  }
}

function addressOf({ name, ssh: address, ssh_enabled }: Container): SshPlace {
  if (address !== undefined) return address;
  const why = ssh_enabled
    ? 'the platform has no SSH gateway'
    : `SSH is off: \`troupe ssh ${name} --enable\` turns it on`;
  throw new ClientFailure('state', `${name} cannot be reached by SSH: ${why}.`);
}

const target = ({ user, host }: SshPlace): string => `${user}@${host}`;
const knownHosts = (): string => join(configFolder(), 'known_hosts');
const aliasOf = ({ profile }: ClientSession, { host, port }: SshPlace): string =>
  `${new URL(profile.url).hostname}-${host}-${port}`;

/** One host key for the whole platform, kept apart from the person's own; a changed one is refused. */
function hostOptions(session: ClientSession, address: SshPlace): string[] {
  const alias = `HostKeyAlias=${aliasOf(session, address)}`;
  return ['-o', alias, '-o', `UserKnownHostsFile=${knownHosts()}`, '-o', 'StrictHostKeyChecking=accept-new'];
}

/** Runs a program in place of this one, and ends as it does. */
async function become(program: string, args: readonly string[]): Promise<void> {
  const child = spawn(program, args, { stdio: 'inherit' });
  // The terminal sends Ctrl-C to the child, too, which decides what it means.
  const ignore = () => {};
  process.on('SIGINT', ignore);
  try {
    process.exitCode = await new Promise<number>((resolve, reject) => {
      child.on('error', (cause) =>
        reject(new ClientFailure('failed', `${program} cannot be started: install an SSH client.`, { cause })),
      );
      child.on('close', (code, signal) => resolve(code ?? (signal === 'SIGINT' ? 130 : 255)));
    });
  } finally {
    process.off('SIGINT', ignore);
  }
}
