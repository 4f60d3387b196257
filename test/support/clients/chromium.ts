/** Starts a real Chromium for tests. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';
import { findProgram } from '../require.ts';
import { type Cleanup, tempDir } from '../temp.ts';

/** socket(2), by the machine's architecture. */
const SOCKET_CALL: Readonly<Record<string, number>> = { x64: 41, arm64: 198 };
const AF_NETLINK = 16;
const NETLINK_ROUTE = 0;
const EAFNOSUPPORT = 97;

/**
 * A program for seccomp (classic BPF over struct seccomp_data) that refuses sockets which tell of the machine's
 * interfaces. Chromium breaks off connections that it is opening when one comes or goes (ERR_NETWORK_CHANGED), as those
 * of containers do in tests beside it. It takes the network as steady when it cannot listen.
 */
function withoutNetworkNews(socketCall: number): Buffer {
  const [load, jumpIfEqual, end] = [0x20, 0x15, 0x06];
  const steps = [
    [load, 0, 0, 0], // the call
    [jumpIfEqual, 0, 5, socketCall],
    [load, 0, 0, 16], // its first argument: domain
    [jumpIfEqual, 0, 3, AF_NETLINK],
    [load, 0, 0, 32], // its third: protocol
    [jumpIfEqual, 0, 1, NETLINK_ROUTE],
    [end, 0, 0, 0x5_0000 | EAFNOSUPPORT], // SECCOMP_RET_ERRNO
    [end, 0, 0, 0x7fff_0000], // SECCOMP_RET_ALLOW
  ] as const;
  const program = Buffer.alloc(steps.length * 8);
  for (const [at, [code, ifTrue, ifFalse, value]] of steps.entries()) {
    program.writeUInt16LE(code, at * 8);
    program.writeUInt8(ifTrue, at * 8 + 2);
    program.writeUInt8(ifFalse, at * 8 + 3);
    program.writeUInt32LE(value, at * 8 + 4);
  }
  return program;
}

/**
 * Writes what starts Chromium without news of the network into `folder`; its path. Chromium's own path where bubblewrap
 * is missing or may not do it.
 */
function steadyChromium(folder: string): string {
  const program = findProgram('chromium') ?? 'chromium';
  const wrap = findProgram('bwrap');
  const call = SOCKET_CALL[process.arch];
  if (wrap === undefined || call === undefined || !mayWrap(wrap)) return program;
  const path = join(folder, 'chromium');
  writeFileSync(join(folder, 'filter'), withoutNetworkNews(call));
  // Playwright speaks to it by descriptors 3 and 4.
  writeFileSync(
    path,
    `#!/bin/sh
for try in ${TRIES.join(' ')}; do
  ${wrap} --dev-bind / / --die-with-parent --seccomp 9 -- /bin/sh -c ': >"$0"; exec "$@"' ${folder}/began ${program} "$@" \\
    9<${folder}/filter
  code=$?
  [ ! -e ${folder}/began ] || exit $code
done
exit $code
`,
    { mode: 0o755 },
  );
  return path;
}

/** bubblewrap fails over a mount that goes while it looks at all of them, as those of containers do. */
const TRIES = [1, 2, 3, 4, 5];

function mayWrap(wrap: string): boolean {
  return TRIES.some(() => spawnSync(wrap, ['--dev-bind', '/', '/', 'true']).status === 0);
}

/** Starts it, ended with `t`. `args`: more of its own flags. */
export async function launchChromium(t: Cleanup, args: readonly string[] = []): Promise<Browser> {
  const browser = await chromium.launch({
    executablePath: steadyChromium(await tempDir(t)),
    // Without a sandbox of its own: it cannot make one for root, and it sees no page but ours.
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-background-networking', '--no-proxy-server', ...args],
  });
  t.after(() => browser.close());
  return browser;
}
