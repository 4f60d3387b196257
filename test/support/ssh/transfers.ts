/** Transfers through the gateway's SSH server: each of random bytes, of random length, by random means. */
import { createHash, randomBytes } from 'node:crypto';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CONTAINER, run, type SshSetup } from './gateway.ts';

const CIPHERS = ['aes128-gcm@openssh.com', 'chacha20-poly1305@openssh.com', 'aes256-ctr'];
const sha = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

/** Does one; undefined when it arrived whole and ended well, else what went wrong. `n` picks the means, so that all get their turn. */
export async function transfer(setup: SshSetup, n: number): Promise<string | undefined> {
  const bytes = randomBytes(500_000 + Math.floor(Math.random() * 4_000_000));
  const [source, target] = [join(setup.dir, `source${n}`), join(setup.dir, `target${n}`)];
  // Some exchange keys in the middle of it.
  const more = ['-c', CIPHERS[n % CIPHERS.length] ?? '', ...(n % 4 === 0 ? ['-o', 'RekeyLimit=700K'] : [])];
  const options = [...setup.options, ...more];
  const place = `${CONTAINER}@127.0.0.1`;
  try {
    await writeFile(n % 5 === 4 ? target : source, bytes);
    switch (n % 5) {
      case 0: {
        const ended = await setup.ssh(more, `cat ${source}`);
        return verdict(ended.code, ended.stderr, ended.stdout, bytes);
      }
      case 1: {
        const ended = await setup.ssh(more, `cat > ${target}`, bytes);
        return verdict(ended.code, ended.stderr, await readFile(target), bytes);
      }
      case 2: {
        const ended = await setup.ssh(more, 'cat', bytes);
        return verdict(ended.code, ended.stderr, ended.stdout, bytes);
      }
      case 3: {
        const ended = await run('scp', ['-q', ...options, '-P', String(setup.port), source, `${place}:${target}`]);
        return verdict(ended.code, ended.stderr, await readFile(target), bytes);
      }
      default: {
        const ended = await run('scp', ['-q', ...options, '-P', String(setup.port), `${place}:${target}`, source]);
        return verdict(ended.code, ended.stderr, await readFile(source), bytes);
      }
    }
  } catch (error) {
    return `transfer ${n}: ${String(error)}`;
  } finally {
    await Promise.all([source, target].map((path) => rm(path, { force: true })));
  }

  function verdict(code: number | null, stderr: string, got: Buffer, sent: Buffer): string | undefined {
    if (code === 0 && sha(got) === sha(sent)) return undefined;
    return `transfer ${n}: code ${code}, ${got.length} of ${sent.length} bytes, ${stderr}`;
  }
}

/** Does `count` of them, `atOnce` at a time. What went wrong. */
export async function transfers(setup: SshSetup, count: number, atOnce: number): Promise<string[]> {
  const problems: string[] = [];
  let next = 0;
  const worker = async () => {
    while (next < count) {
      const problem = await transfer(setup, next++);
      if (problem !== undefined) problems.push(problem);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return problems;
}
