/** A real DNS server (knot) with one zone that the test writes. */
import { spawn } from 'node:child_process';
import { Resolver } from 'node:dns/promises';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Cleanup, freePort, tempDir } from '../temp.ts';
import { until } from '../until.ts';

export interface DnsServer {
  /** `127.0.0.1:<port>` */
  readonly address: string;
  /** Makes these the records of the zone, as lines of a zone file, and waits until they are served. */
  set(...lines: readonly string[]): Promise<void>;
  stop(): Promise<void>;
}

/** A zone that the server cannot read: it answers SERVFAIL for all below it. */
export const BROKEN_ZONE = 'broken.test';

/** Starts it for `zone`. */
export async function dnsServer(t: Cleanup, zone: string): Promise<DnsServer> {
  const dir = await tempDir(t);
  const port = await freePort();
  const address = `127.0.0.1:${port}`;
  let serial = 1;
  const write = (lines: readonly string[]) =>
    writeFile(
      join(dir, 'zone'),
      [
        `$ORIGIN ${zone}.`,
        '$TTL 1',
        `@ SOA ns.${zone}. admin.${zone}. ${serial} 60 60 60 1`,
        `@ NS ns.${zone}.`,
        'ns A 127.0.0.1',
        `serial TXT "${serial}"`,
        ...lines,
        '',
      ].join('\n'),
    );
  await write([]);
  await writeFile(
    join(dir, 'knot.conf'),
    `server:
    listen: 127.0.0.1@${port}
    rundir: "${dir}"
    tcp-workers: 1
    udp-workers: 1
    background-workers: 1
database:
    storage: "${dir}"
zone:
  - domain: ${zone}
    storage: "${dir}"
    file: zone
  - domain: ${BROKEN_ZONE}
    storage: "${dir}"
    file: none
`,
  );
  const child = spawn('knotd', ['-c', join(dir, 'knot.conf')], { stdio: 'ignore' });
  const ended = once(child, 'close');
  const resolver = new Resolver({ timeout: 200, tries: 1 });
  resolver.setServers([address]);
  const served = () =>
    until(async () => (await resolver.resolveTxt(`serial.${zone}`).catch(() => [])).flat().includes(String(serial)), {
      what: 'the DNS server serves the zone',
    });
  const stop = async () => {
    child.kill('SIGKILL');
    await ended;
  };
  t.after(stop);
  await served();
  return {
    address,
    async set(...lines) {
      serial += 1;
      await write(lines);
      child.kill('SIGHUP');
      await served();
    },
    stop,
  };
}
