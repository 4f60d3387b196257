import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import type { Engine } from '../../../proto/ports/engine.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { DockerClient, isReply } from '../../../transports/engines/docker/api/client.ts';
import { type DockerEngineOptions, dockerEngine } from '../../../transports/engines/docker/engine.ts';
import { findDocker } from '../../../transports/engines/docker/host/find-docker.ts';
import {
  dockerdInstalled,
  startPrivateDockerd,
  stopPrivateDockerd,
} from '../../../transports/engines/docker/host/private-dockerd.ts';
import { namingOf } from '../../../transports/engines/docker/naming.ts';
import { until } from '../until.ts';
import type { EngineUnderTest } from './conformance-suite.ts';
import { seenFromInside } from './conformance-workload.ts';
import { dockerProxy } from './docker-proxy.ts';
import { alice, publish, registryInstalled, removePublished, startRegistry } from './docker-registry.ts';
import { removeInstallation } from './remove-installation.ts';
import { removeNetworks } from './remove-networks.ts';
import { buildTinyImage, perlFiles, tinyImageMissing } from './tiny-image.ts';

/** A log that says nothing. */
export const silentLog: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silentLog,
};

/** Whether parts that are missing must fail the run instead of being skipped. */
export const realRequired = process.env.TROUPE_TEST_REAL === 'required';

/** The engine given by DOCKER_HOST, or that of the usual sockets. */
export const givenDocker = await findDocker({ DOCKER_HOST: process.env.DOCKER_HOST });

const canStart = dockerdInstalled() && process.getuid?.() === 0;

/** Whether a registry is among the parts of the conformance suite. */
export const withRegistry = registryInstalled || realRequired;

/** Why tests on a real Docker cannot run here; false when they can, or when they must. */
export function dockerSkip(): string | false {
  if (realRequired) return false;
  const tiny = tinyImageMissing();
  if (tiny !== undefined) return `missing: ${tiny}`;
  return givenDocker !== undefined || canStart ? false : 'no Docker Engine answers, and none can be started here';
}

/** A Docker host for a test file: the one at hand, or a private dockerd in a temporary folder. */
export async function testDocker(): Promise<{ host: string; end: () => Promise<void> }> {
  if (givenDocker !== undefined) return { host: givenDocker, end: async () => undefined };
  const dataDir = await mkdtemp(join(tmpdir(), 'troupe-test-'));
  const { host } = await startPrivateDockerd({ dataDir, log: silentLog });
  return {
    host,
    end: async () => {
      await removeNetworks(host);
      await stopPrivateDockerd({ dataDir, log: silentLog });
      await removeDockerFolder(dataDir);
    },
  };
}

/** Removes the folder of a private dockerd that was stopped; fails when something stays mounted below. */
export async function removeDockerFolder(dataDir: string): Promise<void> {
  const mounted = () =>
    readFileSync('/proc/self/mounts', 'utf8')
      .split('\n')
      .filter((line) => line.includes(`${dataDir}/`));
  // One that was killed has its mounts until the kernel is done with it.
  await until(() => mounted().length === 0, { timeoutMs: 60_000, everyMs: 100 }).catch(() => {
    throw new Error(`still mounted: ${mounted().join(', ')}`);
  });
  await rm(dataDir, { recursive: true, force: true });
}

const created = z.object({ Id: z.string() });

/** A Docker engine with an installation of its own and the tiny image, for the conformance suite. `address`: how the engine reaches `docker`. */
export async function dockerUnderTest(
  options: {
    registry?: boolean;
    perl?: boolean;
    docker?: Awaited<ReturnType<typeof testDocker>>;
    address?: string;
  } = {},
): Promise<
  EngineUnderTest & {
    client: DockerClient;
    host: string;
    installation: string;
    /** Runs a script in a container, and says what it printed. */
    exec(id: string, script: string): Promise<Buffer>;
  }
> {
  const docker = options.docker ?? (await testDocker());
  const { host } = docker;
  const installation = `test-${process.pid}-${Math.random().toString(36).slice(2, 8)}`;
  const naming = namingOf(installation);
  const base = await buildTinyImage(`-${installation}`, options.perl === true ? await perlFiles() : []);
  const client = new DockerClient(host);
  const proxy = await dockerProxy(host);
  const open = (host: string, more: Partial<DockerEngineOptions> = {}): Promise<Engine> =>
    dockerEngine({ host, installation, log: silentLog, images: { base }, ...more });
  const engine = await open(options.address ?? proxy.host, {
    usageTimes: { memoryMs: 200, diskMs: 500, idleMs: 60_000, forgetMs: 3_600_000 },
  });

  const registry = options.registry === true ? await startRegistry() : undefined;
  const registryImage = `${registry?.host}/alice/app:1`;
  const publishImage = (): Promise<void> => publish(client, base.reference, registryImage, installation);
  if (registry !== undefined) {
    await engine.ensureImage(base.reference, { always: false });
    await publishImage();
  }

  const exec = async (id: string, script: string): Promise<Buffer> => {
    const { Id } = await client.json('POST', `/containers/${naming.container(id)}/exec`, created, {
      body: { AttachStdout: true, Tty: true, Cmd: ['sh', '-c', script] },
    });
    return client.call('POST', `/exec/${Id}/start`, { body: { Detach: false, Tty: true } });
  };
  return {
    engine,
    client,
    host,
    installation,
    image: base.reference,
    ...(registry === undefined ? {} : { registry: { image: registryImage, auth: alice, publish: publishImage } }),
    kill: async (id) => void (await client.call('POST', `/containers/${naming.container(id)}/kill`)),
    removeContainer: async (id) => {
      await client.call('DELETE', `/containers/${naming.container(id)}`, { query: { force: true } });
    },
    writeFile: async (id, path, text) =>
      void (await exec(id, `mkdir -p $(dirname ${path}); printf %s '${text}' > ${path}`)),
    readFile: async (id, path) => {
      const out = (await exec(id, `[ -e ${path} ] && echo yes && cat ${path}`)).toString().replaceAll('\r\n', '\n');
      return out.startsWith('yes\n') ? out.slice(4) : undefined;
    },
    print: async (id, lines, stream) => {
      const output = `/proc/1/fd/${stream === 'stderr' ? 2 : 1}`;
      await exec(id, lines.map((line) => `echo '${line}' > ${output}`).join('; '));
    },
    seen: (id) => seenFromInside(engine, id),
    description: async (id) =>
      (await client.call('GET', `/containers/${naming.container(id)}/json`)).toString() +
      (await client.call('GET', `/containers/${naming.container(id)}/top`)).toString(),
    runsScripts: true,
    cut: async () => proxy.cut(),
    again: () => open(host),
    connects: async (id, address, port) => {
      const said = await exec(id, `nc -w 1 ${address} ${port} < /dev/null > /tmp/said 2>&1; echo; cat /tmp/said`);
      return /SSH-2\.0|reached/.test(said.toString());
    },
    exec,
    end: async () => {
      await engine.close();
      await proxy.close();
      await removeInstallation(host, installation);
      await removePublished(client, installation);
      await registry?.close();
      await client.call('DELETE', `/images/${base.reference}`).catch((error: unknown) => {
        // It was never made when the suite failed early.
        if (!isReply(error, 404)) throw error;
      });
      client.close();
      await docker.end();
    },
  };
}
