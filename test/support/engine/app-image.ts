/** A small image that takes `troupe deploy`, made in a few seconds from programs of this machine. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { TarEntry } from '../../../lib/tar.ts';
import type { DockerClient } from '../../../transports/engines/docker/api/client.ts';
import { findProgram } from '../require.ts';
import { docker } from './docker-client.ts';
import { buildTinyImage, perlFiles } from './tiny-image.ts';

const run = promisify(execFile);

/** What deploy/release/release.sh needs and busybox lacks, or has with fewer options. */
export const DEPLOY_PROGRAMS = [
  ...['bash', 'curl', 'ss', 'hostname', 'flock', 'find', 'xargs', 'cp', 'mv', 'sha256sum', 'comm', 'sort', 'stat'],
  ...['mktemp', 'timeout', 'head', 'tail', 'sync', 'ln', 'readlink'],
];

let made: Promise<string> | undefined;

/** Its reference: to be given as DEFAULT_IMAGE. `label` ends the tag. */
export function appImage(): Promise<string> {
  made ??= build('-app', []);
  return made;
}

/** Another image for each `version`: its program serves a page with that, and with the variable VERSION, on port 8080. */
export function appImageOf(version: string): Promise<string> {
  const file = (path: string, text: string): TarEntry => ({ kind: 'file', path, mode: 0o755, data: Buffer.from(text) });
  const program = [
    ...['#!/bin/sh', 'mkdir -p /tmp/page && echo "$(cat /version) $VERSION" >/tmp/page/index.html'],
    'exec busybox httpd -f -p 8080 -h /tmp/page',
  ];
  return build(`-app-${version}`, [
    file('version', `${version}\n`),
    file('usr/local/lib/troupe/start', `${program.join('\n')}\n`),
  ]);
}

/** The same image in another Docker Engine. */
export function appImageIn(client: DockerClient): Promise<string> {
  return build('-app', [], client);
}

async function build(label: string, more: readonly TarEntry[], client = docker()): Promise<string> {
  const image = await buildTinyImage(label, [...(await perlFiles()), ...(await deployFiles()), ...more]);
  await image.build(client, () => {}, new AbortController().signal);
  return image.reference;
}

async function deployFiles(): Promise<TarEntry[]> {
  const libraries = new Set<string>();
  const programs = DEPLOY_PROGRAMS.map((name) => ({ name, path: findProgram(name) ?? `/usr/bin/${name}` }));
  for (const { path } of programs) {
    const { stdout } = await run('ldd', [path]);
    for (const match of stdout.matchAll(/(\/\S+\.so\S*)/g)) libraries.add(match[1] ?? '');
  }
  const file = async (path: string, from: string): Promise<TarEntry> => ({
    ...{ kind: 'file', path, mode: 0o755 },
    data: await readFile(from),
  });
  return [
    // In the place of busybox's own; its shell runs those whatever is there.
    await file('bin/sh', '/bin/dash'),
    ...(await Promise.all(programs.map(({ name, path }) => file(`bin/${name}`, path)))),
    ...(await Promise.all([...libraries].sort().map((path) => file(path.slice(1), path)))),
  ];
}
