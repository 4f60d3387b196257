/** A Docker Engine that other machines could reach: over TLS with client certificates, and over SSH. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { DockerClient } from '../../../transports/engines/docker/api/client.ts';
import { freePort } from '../temp.ts';
import { removeDockerFolder } from './docker-under-test.ts';
import { eventually } from './eventually.ts';

const run = promisify(execFile);

export interface RemoteDocker {
  /** Where it is on this machine. */
  readonly host: string;
  readonly tlsPort: number;
  readonly sshPort: number;
  /** ca.pem, cert.pem and key.pem of a client it lets in; of one with a certificate of another authority. */
  readonly certs: string;
  readonly strangersCerts: string;
  /** ssh_config of a client that knows the machine; of one that knows another key of it. */
  readonly sshConfig: string;
  readonly strangersConfig: string;
  end(): Promise<void>;
}

/** An authority in a folder of its own, with a server's and a client's certificate. */
async function authority(folder: string): Promise<void> {
  mkdirSync(folder);
  const openssl = (...args: string[]): Promise<unknown> => run('openssl', args, { cwd: folder });
  const fresh = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'];
  await openssl(...fresh, '-subj', '/CN=authority', '-keyout', 'ca-key.pem', '-out', 'ca.pem');
  for (const [name, usage] of [
    ['server', 'serverAuth'],
    ['client', 'clientAuth'],
  ] as const) {
    const more = ['-CA', 'ca.pem', '-CAkey', 'ca-key.pem', '-addext', `extendedKeyUsage=${usage}`];
    const names = ['-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost', '-addext', 'basicConstraints=CA:FALSE'];
    const files = ['-keyout', `${name}-key.pem`, '-out', `${name}.pem`];
    await openssl(...fresh, '-subj', `/CN=${name}`, ...more, ...names, ...files);
  }
  writeFileSync(join(folder, 'cert.pem'), readFileSync(join(folder, 'client.pem')));
  writeFileSync(join(folder, 'key.pem'), readFileSync(join(folder, 'client-key.pem')));
}

async function ended(child: ChildProcess): Promise<void> {
  child.kill('SIGTERM');
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}

/** Starts a dockerd and an sshd, both on loopback. */
export async function startRemoteDocker(): Promise<RemoteDocker> {
  const folder = mkdtempSync(join(tmpdir(), 'troupe-remote-'));
  const path = (name: string): string => join(folder, name);
  await Promise.all([authority(path('own')), authority(path('strange'))]);
  const [tlsPort, sshPort] = [await freePort(), await freePort()];
  writeFileSync(path('dockerd.json'), '{}');
  const dockerd = spawn(
    'dockerd',
    [
      ...['--config-file', path('dockerd.json'), '--data-root', path('data'), '--exec-root', path('exec')],
      ...['--pidfile', path('dockerd.pid'), '--bridge', 'none', '--iptables=false', '--ip6tables=false'],
      ...['--tlsverify', '--tlscacert', path('own/ca.pem'), '--tlscert', path('own/server.pem')],
      ...['--tlskey', path('own/server-key.pem'), '-H', `tcp://127.0.0.1:${tlsPort}`, '-H', `unix://${path('d.sock')}`],
    ],
    { cwd: '/', stdio: 'ignore' },
  );
  const keygen = (name: string): Promise<unknown> =>
    run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', path(name)]);
  await Promise.all(['host', 'other', 'user'].map(keygen));
  const publicKey = (name: string): string =>
    readFileSync(path(`${name}.pub`), 'utf8')
      .split(' ')
      .slice(0, 2)
      .join(' ');
  mkdirSync('/run/sshd', { recursive: true });
  const settings = {
    ...{ ListenAddress: '127.0.0.1', Port: sshPort, HostKey: path('host'), PidFile: 'none', UsePAM: 'no' },
    ...{ AuthorizedKeysFile: path('user.pub'), StrictModes: 'no', PasswordAuthentication: 'no' },
    PermitRootLogin: 'prohibit-password',
  };
  const lines = (of: object): string =>
    Object.entries(of)
      .map(([name, value]) => `${name} ${value}\n`)
      .join('');
  writeFileSync(path('sshd_config'), lines(settings));
  const sshd = spawn('/usr/sbin/sshd', ['-D', '-f', path('sshd_config')], { stdio: 'ignore' });
  const clientOf = (name: string, hostKey: string): string => {
    writeFileSync(path(`known-${name}`), `[127.0.0.1]:${sshPort} ${publicKey(hostKey)}\n`);
    const known = { UserKnownHostsFile: path(`known-${name}`), GlobalKnownHostsFile: '/dev/null' };
    writeFileSync(path(`ssh-${name}`), lines({ IdentityFile: path('user'), IdentitiesOnly: 'yes', ...known }));
    return path(`ssh-${name}`);
  };
  const host = `unix://${path('d.sock')}`;
  const end = async (): Promise<void> => {
    await Promise.all([ended(sshd), ended(dockerd)]);
    await removeDockerFolder(folder);
  };
  const client = new DockerClient(host);
  try {
    await eventually(() => client.ping(), 60_000);
  } catch (error) {
    await end();
    throw error;
  } finally {
    client.close();
  }
  return {
    ...{ host, tlsPort, sshPort, end, certs: path('own'), strangersCerts: path('strange') },
    ...{ sshConfig: clientOf('known', 'host'), strangersConfig: clientOf('strange', 'other') },
  };
}
