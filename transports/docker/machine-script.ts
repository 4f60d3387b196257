import { z } from 'zod';
import type { DockerClient } from './client.ts';
import { cleanReason } from './errors.ts';
import type { RunScript } from './firewall.ts';
import { labels, type Naming } from './naming.ts';

const created = z.object({ Id: z.string() });
const ended = z.object({ StatusCode: z.number() });

/** To enter namespaces (setns(2), ptrace(2)), and to change what iptables(8) changes there. */
const neededCapabilities = ['SYS_ADMIN', 'SYS_CHROOT', 'SYS_PTRACE', 'NET_ADMIN', 'NET_RAW', 'DAC_OVERRIDE'];

/**
 * Runs a script on Docker's own machine, for a platform that is not root there: in a container of the base image, which is ours and has
 * nsenter(1), and in the namespaces of the machine's first process. Whoever may talk to Docker may do this; it is for the platform's
 * own scripts only. Rejects with EngineError when the image is not there.
 */
export function machineScript(client: DockerClient, naming: Naming, baseImage: string): RunScript {
  return async (script) => {
    const { Id } = await client.json('POST', '/containers/create', created, {
      body: {
        Image: baseImage,
        Entrypoint: ['nsenter', '-t', '1', '-m', '-n'],
        Cmd: ['/bin/sh', '-c', `PATH=/usr/sbin:/sbin:$PATH\n${script}`],
        User: '0',
        Tty: true,
        Labels: { [labels.installation]: naming.installation, [labels.helper]: 'machine' },
        HostConfig: {
          PidMode: 'host',
          NetworkMode: 'host',
          CapDrop: ['ALL'],
          CapAdd: neededCapabilities,
          SecurityOpt: ['seccomp=unconfined', 'apparmor=unconfined'],
        },
      },
    });
    try {
      await client.call('POST', `/containers/${Id}/start`);
      const { StatusCode } = await client.json('POST', `/containers/${Id}/wait`, ended, { timeoutMs: 60_000 });
      const said = await client.call('GET', `/containers/${Id}/logs`, {
        query: { stdout: true, stderr: true, tail: 1 },
      });
      return { code: StatusCode, said: cleanReason(said.toString('utf8')) };
    } finally {
      await client.call('DELETE', `/containers/${Id}`, { query: { force: true, v: true } });
    }
  };
}
