import { z } from 'zod';
import { cleanReason } from '../../common/calls.ts';
import { created, type DockerClient } from '../api/client.ts';
import { type Naming, noHealthcheck } from '../naming.ts';
import type { RunScript } from '../run.ts';

const ended = z.object({ StatusCode: z.number() });

/** To leave the image for the machine's own files, and to change what iptables(8) changes. */
const neededCapabilities = ['SYS_CHROOT', 'NET_ADMIN', 'NET_RAW'];

/**
 * Runs a script on Docker's own machine, for a platform that is not root there: in a container of the base image, which
 * is ours, with the machine's network and the machine's files as its root, and its processes when it is to see (and
 * end) these. Whoever may talk to Docker may do this; it is for the platform's own scripts only. Rejects with
 * EngineError when the image is not there.
 */
export function machineScript(
  client: DockerClient,
  naming: Naming,
  baseImage: string,
  { seesProcesses = false }: { readonly seesProcesses?: boolean } = {},
): RunScript {
  return async (script) => {
    const { name, labels } = naming.helper('machine');
    const { Id } = await client.json('POST', '/containers/create', created, {
      query: { name },
      body: {
        Image: baseImage,
        Entrypoint: ['chroot', '/machine'],
        Cmd: ['/bin/sh', '-c', `PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin\n${script}`],
        User: '0',
        Tty: true,
        Labels: labels,
        Healthcheck: noHealthcheck,
        HostConfig: {
          NetworkMode: 'host',
          ...(seesProcesses ? { PidMode: 'host' } : {}),
          Binds: ['/:/machine'],
          CapDrop: ['ALL'],
          CapAdd: seesProcesses ? [...neededCapabilities, 'KILL'] : neededCapabilities,
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
